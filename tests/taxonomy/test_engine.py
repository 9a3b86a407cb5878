"""A changed rule makes its findings stale by itself: its version is a digest of its sources."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from taxonomy.judgements.diagnoses import SOURCES, engine_version

ROOT = Path(__file__).resolve().parents[2]
SAY = "from taxonomy.judgements.diagnoses import engine_version; print(engine_version())"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The packages as a wheel puts them into a folder."""
    for package in SOURCES:
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    return tmp_path


def said(place: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-P", "-c", SAY],
        capture_output=True, text=True, check=True, cwd="/", env={"PYTHONPATH": str(place)},
    )  # fmt: skip
    return done.stdout.strip()


def test_a_copy_has_the_version_of_the_original(installed: Path) -> None:
    assert said(installed) == engine_version()


@pytest.mark.parametrize("name", ["taxonomy/rules/loop.py", "replay/effects.py"])
@pytest.mark.slow
def test_a_changed_source_is_another_version(name: str, installed: Path) -> None:
    file = installed / name
    before = file.read_bytes()
    file.write_bytes(before.replace(b"\n", b"\r\n"))
    assert said(installed) == engine_version(), "line ends are not a change"
    file.write_bytes(before + b"MORE = 1\n")
    assert said(installed) != engine_version()


def test_a_new_rule_is_another_version(installed: Path) -> None:
    (installed / "taxonomy" / "rules" / "another.py").write_text("NAME = 'another'\n")
    assert said(installed) != engine_version()


def test_all_that_a_diagnosis_follows_from_is_in_it() -> None:
    graph = grimp.build_graph("taxonomy", "replay")
    upstream = {*graph.find_upstream_modules("taxonomy.diagnosis"), "taxonomy.diagnosis"}
    covered = {
        f"{package}.{name.removesuffix('.py').replace('/', '.')}"
        for package, names in SOURCES.items()
        for name in names
    }
    packages = {module for module in upstream if any(m.startswith(f"{module}.") for m in upstream)}
    named = {
        next((name for name in covered if f"{module}.".startswith(f"{name}.")), module)
        for module in upstream - packages
    }
    assert named == covered
