"""What is imported is declared: for the product by its dependencies and extras, for the tests by
`dev`; and a command that needs an extra which is not installed names it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distribution, packages_distributions
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.blank import put_ledger
from tests.test_boundaries import PACKAGES, ROOT, nodes

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OWN = {*PACKAGES, "tests"}
BY_NAME = {"import_module", "find_spec", "require"}
"""Functions that are given the name of a module or package, in whichever argument."""

TOOLS = {
    "build", "import-linter", "mutmut", "mypy", "opentelemetry-exporter-otlp-proto-http",
    "opentelemetry-sdk", "pytest-asyncio", "pytest-xdist", "ruff", "types-protobuf",
}  # fmt: skip
"""What `dev` declares to be run, in processes of its own or by name, and not imported here."""

NEWER_PYTHON = {"compression"}
"""Modules of the standard library that the oldest Python here does not have yet."""

OWN_ENVIRONMENTS = ROOT / "tests" / "captures" / "frameworks"
"""Scripts that run elsewhere; what they need stands in the head of each."""


def normal(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def declared(requirements: list[str]) -> set[str]:
    found = (re.match(r"[A-Za-z0-9._-]+", each) for each in requirements)
    return {normal(each[0]) for each in found if each is not None}


CORE = declared(PROJECT["dependencies"])
EXTRAS = {name: declared(each) for name, each in PROJECT["optional-dependencies"].items()}
DEV = EXTRAS.pop("dev")


def imported(path: Path) -> Iterator[str]:
    """The foreign modules a file imports at any depth, those under `if` and in functions too:
    their dotted names, `from a import b` as `a.b`."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Call) and _called(node) in BY_NAME:
            names = _texts(node.args)
        else:
            continue
        for name in names:
            top = name.partition(".")[0]
            if top.isidentifier() and top not in sys.stdlib_module_names | OWN | NEWER_PYTHON:
                yield name


def _texts(arguments: list[ast.expr]) -> list[str]:
    values = [each.value for each in arguments if isinstance(each, ast.Constant)]
    return [each for each in values if isinstance(each, str)]


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


@cache
def _owners() -> dict[str, list[str]]:
    return dict(packages_distributions())


@cache
def _files(package: str) -> frozenset[str]:
    return frozenset(str(each) for each in distribution(package).files or ())


def owner(module: str) -> str:
    """The distribution a module comes from. Of several that share a top level (`google`,
    `opentelemetry`) the one that holds the deepest part of the name; the module's own name where
    nothing installed has it."""
    parts = module.split(".")
    found = _owners().get(parts[0], [])
    for length in range(len(parts), 0, -1):
        stem = "/".join(parts[:length])
        files = {f"{stem}.py", f"{stem}.pyi", f"{stem}/__init__.py"}
        holding = sorted({each for each in found if files & _files(each)})
        if len(holding) == 1:
            return normal(holding[0])
    return normal(found[0] if len(set(found)) == 1 else module)


def undeclared(folders: tuple[str, ...], known: set[str]) -> dict[str, list[str]]:
    """What is imported from these folders and not known: the first files that do."""
    found = defaultdict(list)
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.is_relative_to(OWN_ENVIRONMENTS):
                continue
            for package in {owner(name) for name in imported(path)} - known:
                found[package].append(path.relative_to(ROOT).as_posix())
    return {package: paths[:3] for package, paths in found.items()}


BESIDE_DEV = {"docs", "fuzz", "mutants"}
"""Extras for some who work on `arc`: what needs them is skipped elsewhere."""


@pytest.mark.slow
def test_what_the_product_imports_is_a_dependency_or_stands_in_an_extra() -> None:
    extras = (
        "parquet", "crypt", "serve", "openai", "bedrock", "vertex", "suggest", "mcp", "fleet",
        "cluster",
    )  # fmt: skip
    of_users = set().union(*(EXTRAS[name] for name in extras))
    assert undeclared(PACKAGES, CORE | of_users) == {}


@pytest.mark.slow
def test_what_the_tests_import_stands_in_dev() -> None:
    assert undeclared(("tests",), CORE | DEV | EXTRAS["fuzz"] | EXTRAS["docs"]) == {}


def test_the_readme_names_every_extra_for_users() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in EXTRAS if name not in BESIDE_DEV and f"`[{name}]`" not in text] == []


def test_what_an_extra_needs_stands_in_dev_so_that_it_is_tested() -> None:
    lacking = {name: sorted(each - DEV) for name, each in EXTRAS.items() if name not in BESIDE_DEV}
    assert lacking == {name: [] for name in lacking}


@pytest.mark.process
def test_what_is_declared_is_imported() -> None:
    folders = (*PACKAGES, "tests")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    used = {owner(name) for path in files for name in imported(path)}
    assert sorted((CORE | DEV | set().union(*EXTRAS.values())) - used - TOOLS) == []


@pytest.mark.parametrize(
    ("code", "package"),
    [
        ("import nowhere.to_be.found", "nowhere-to-be-found"),
        ("def f():\n  from nowhere import found", "nowhere-found"),
        ("if True:\n  import_module('nowhere')", "nowhere"),
        ("from google.protobuf import message", "protobuf"),
        ("from opentelemetry.proto.trace.v1 import trace_pb2", "opentelemetry-proto"),
        ("from opentelemetry.sdk.trace import TracerProvider", "opentelemetry-sdk"),
    ],
)
@pytest.mark.slow
def test_an_import_is_found_wherever_it_stands(code: str, package: str, tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_text(code)
    assert {owner(name) for name in imported(path)} == {package}


# --- without an extra

WITHOUT = """
import sys
class Lacking:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {modules!r}:
            return None
        return self.finder.find_spec(name, path, target)
sys.meta_path[:] = map(Lacking, sys.meta_path)
"""


def arc_without(modules: set[str], words: list[str]) -> subprocess.CompletedProcess[str]:
    """A command in a process where these modules cannot be found."""
    code = WITHOUT.format(modules=modules) + (
        f"sys.argv = {['arc', *words]!r}\nfrom arc_tui.commands import main\nmain()\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )


def modules_of(extra: str) -> set[str]:
    """The top levels of what an extra alone brings."""
    own = EXTRAS[extra] - CORE
    return {top for top, names in _owners().items() if {*map(normal, names)} & own}


LACKING = [
    ("serve", ["record", "--", "true"], "arc record needs aiohttp, which is not installed"),
    ("serve", ["listen", "--port", "0"], "arc listen needs aiohttp, which is not installed"),
    ("serve", ["serve", "--port", "0"], "arc serve needs aiohttp, which is not installed"),
    (
        "suggest",
        ["suggest", "loop", "--reflect", "demo"],
        "arc suggest --reflect needs gepa, which is not installed",
    ),
    ("mcp", ["mcp"], "arc mcp needs mcp, which is not installed"),
    (
        "fleet",
        ["fleet", "ls", "prod"],
        "arc fleet needs clickhouse-connect, which is not installed",
    ),
    (
        "cluster",
        ["fleet", "scan", "prod", "--dask", "tcp://127.0.0.1:8786"],
        "arc fleet scan --dask needs distributed, which is not installed",
    ),
    ("parquet", ["import", "{folder}/x.parquet"], "is a parquet file, and duckdb is not installed"),
    ("crypt", ["db", "encrypt"], "encrypted databases need sqlcipher3, which is not installed"),
]


@pytest.mark.process
@pytest.mark.parametrize(("extra", "words", "said"), LACKING)
def test_a_command_that_lacks_its_extra_names_it(
    extra: str, words: list[str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1context.trace_id")
    database = str(tmp_path / "arc.db")
    put_ledger(Path(database))
    given = [each.format(folder=tmp_path) for each in words]
    done = arc_without(modules_of(extra), ["--db", database, *given])
    assert done.returncode == 2
    assert said in done.stderr
    assert f"pip install 'arc-tui[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.process
def test_each_package_that_recording_imports_is_named_where_it_alone_is_lacking() -> None:
    record, serve = "features/record/command.py", "serve/command.py"
    for file, name in ((record, "record"), (record, "listen"), (serve, "serve")):
        needed = [
            module
            for node in nodes(ROOT / "arc_tui" / file)
            if isinstance(node, ast.Call) and _called(node) == "require"
            if _texts(node.args[:1]) == [f"arc {name}"]
            for module in _texts(node.args[1:])
        ]
        assert needed
        for module in needed:
            done = arc_without({module}, [name, *(["--", "true"] if name == "record" else [])])
            assert f"arc {name} needs {module.replace('_', '-')}" in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("command", ["record", "listen", "serve", "mcp"])
def test_the_help_of_what_needs_an_extra_says_so(command: str) -> None:
    done = arc_without(set(), [command, "--help"])
    extra = "mcp" if command == "mcp" else "serve"
    assert f"pip install 'arc-tui[{extra}]'" in " ".join(done.stdout.split())


@pytest.mark.process
def test_without_any_extra_every_other_module_can_be_imported() -> None:
    lacking = set().union(*map(modules_of, ("parquet", "crypt", "serve", "mcp", "fleet")))
    code = WITHOUT.format(modules=lacking) + (
        "import importlib\n"
        f"for name in {_modules_of_the_product()!r}:\n"
        "    try: importlib.import_module(name)\n"
        "    except ModuleNotFoundError: print(name)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.split() == ONLY_WITH_AN_EXTRA


ONLY_WITH_AN_EXTRA = [
    "arc_tui.features.record.listening",
    "arc_tui.features.record.proxy",
    "arc_tui.mcp.server",
    "arc_tui.serve.server",
    "arc_tui.serve.session",
]
"""What is imported by a command that has asked for its extra before."""


def _modules_of_the_product() -> list[str]:
    paths = [path for folder in PACKAGES for path in sorted((ROOT / folder).rglob("*.py"))]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    return [each.removesuffix(".__init__") for each in names if not each.endswith("__main__")]


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13", "3.14"])
def test_the_lock_has_a_version_that_satisfies_each_requirement(python: str) -> None:
    where = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}

    def wanted(text: str) -> Requirement | None:
        need = Requirement(text)
        return need if need.marker is None or need.marker.evaluate(where) else None

    lines = (ROOT / ".ci/dev.lock").read_text().splitlines()
    locked = [pin for line in lines if line[:1].isalnum() and (pin := wanted(line)) is not None]
    pins = {normal(pin.name): str(pin.specifier).removeprefix("==") for pin in locked}
    optional = PROJECT["optional-dependencies"].values()
    for text in chain(PROJECT["dependencies"], *optional):
        if (need := wanted(text)) is not None:
            assert need.specifier.contains(pins[normal(need.name)]), text
