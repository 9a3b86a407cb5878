"""The scripts of frameworks, and an environment for each.

A script's head names what it needs, and the captures that it makes, each with the settings it is
made with and what its client does not record. In Python `pip` and `uv` read the same head; scripts
of JavaScript have it behind `//`.

    # /// script
    # dependencies = ["strands-agents[openai,otel]==1.62.0"]
    # [tool.capture.strands_otel]
    # not_in_the_file = ["stop reasons"]
    # [tool.capture.strands_otel.env]
    # OTEL_SEMCONV_STABILITY_OPT_IN = "gen_ai_latest_experimental"
    # ///
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from replay.errors import ArcError

FRAMEWORKS = Path(__file__).parent / "frameworks"

_HEAD = re.compile(r"^(#|//) /// script\n((?:\1.*\n)*?)\1 ///$", re.M)
_PIN = re.compile(r"(\[.*\])?==|(?<=.)@")


class Framework(Struct, frozen=True, kw_only=True):
    """A capture to be made: its script, and what the script's head says of it."""

    name: str
    path: Path
    dependencies: tuple[str, ...]
    env: dict[str, str] = {}
    not_in_the_file: tuple[str, ...] = ()
    note: str = ""

    @property
    def client(self) -> str:
        """What it needs, with versions: `openai 2.54.0, …`."""
        return ", ".join(_PIN.sub(" ", each) for each in self.dependencies)


class Environment(Struct, frozen=True, kw_only=True):
    """Where a script runs: its folder, and the command that runs it."""

    folder: Path
    command: tuple[str, ...]


def frameworks() -> dict[str, Framework]:
    """Every capture that the scripts can make, by name."""
    paths = sorted(path for path in FRAMEWORKS.iterdir() if path.suffix in (".py", ".mjs"))
    return {each.name: each for path in paths for each in _of(path)}


def _of(path: Path) -> list[Framework]:
    found = _HEAD.search(path.read_text())
    if found is None:
        return []
    head = tomllib.loads(re.sub(rf"^{found[1]} ?", "", found[2], flags=re.M))
    common = {"path": path, "dependencies": head["dependencies"]}
    return [
        msgspec.convert({"name": name, **common, **said}, Framework)
        for name, said in head["tool"]["capture"].items()
    ]


def environment(chosen: Framework, folder: Path) -> Environment:
    """The script's environment below a folder; made where it is not there.

    Raises ArcError with the installer's last words where it cannot be.
    """
    digest = hashlib.sha256(repr(chosen.dependencies).encode()).hexdigest()[:12]
    own = folder / f"{chosen.path.stem}-{digest}"
    done = own / "done"
    is_python = chosen.path.suffix == ".py"
    if not done.exists():
        shutil.rmtree(own, ignore_errors=True)
        (_make_venv if is_python else _make_modules)(chosen, own)
        done.touch()
    if is_python:
        return Environment(folder=own, command=(str(own / "bin" / "python"), str(chosen.path)))
    for each in (chosen.path, FRAMEWORKS / "shop.mjs"):  # modules are looked for beside a script
        shutil.copy(each, own)
    return Environment(folder=own, command=("node", str(own / chosen.path.name)))


def _make_venv(chosen: Framework, own: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", own], check=True)
    pip = [str(own / "bin" / "python"), "-m", "pip", "install", "-q"]
    _install(chosen, [*pip, *chosen.dependencies], own)


def _make_modules(chosen: Framework, own: Path) -> None:
    own.mkdir(parents=True)
    (own / "package.json").write_text('{"private": true, "type": "module"}')
    _install(chosen, ["npm", "install", "--no-audit", "--no-fund", *chosen.dependencies], own)


def _install(chosen: Framework, command: list[str], own: Path) -> None:
    try:
        said = subprocess.run(command, cwd=own, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise ArcError(f"{chosen.name}: cannot be installed: no {command[0]} here") from error
    if said.returncode:
        last = "; ".join(said.stderr.strip().splitlines()[-3:])
        raise ArcError(f"{chosen.name}: cannot be installed: {last}")
