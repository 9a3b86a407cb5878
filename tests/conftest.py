"""How hard the tests try, what they make once for all, and what costs them time for nothing."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.tries import CI, EXAMPLES

if TYPE_CHECKING:
    from tests.shared import Imported

# How long an example takes says how busy the machine is, not whether the property holds: `CI`'s own
# profile does not ask for it either.
settings.register_profile(
    "desk", max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# mutmut runs a test many times in one process, so those of a class have a new object each time.
settings.register_profile(
    "mutants",
    settings.get_profile("desk"),
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.differing_executors],
)
if not CI:
    settings.load_profile("desk")

# Kept bytecode is thrown away by its time stamp; without it each worker and each command that a
# test starts compiles hundreds of modules anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The modules under test are hundreds of thousands of objects that never become garbage, and each
# app and each run makes tens of thousands more: with Python's own thresholds a sixth of the time
# goes into looking through them.
gc.set_threshold(200_000, 20, 100)


# A shell that starts the tests in the background has them ignore ctrl-c, and so would each command
# that they start: what shows how ctrl-c is heeded would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


EVERYDAY = "not pilot and not process and not data and not slow"


def pytest_configure(config: pytest.Config) -> None:
    """`pytest` alone runs what costs little; files or folders that are named run whole."""
    if not config.option.markexpr and config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.option.markexpr = EVERYDAY


IMPORTED = {"real", "others", "large"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs real traces imported. It comes first: one worker imports while others go
    on. What takes minutes comes first of the second half, which is where another worker begins."""
    for item in items:
        if IMPORTED & set(getattr(item, "fixturenames", ())):
            item.add_marker("data")
    items.sort(key=lambda item: item.get_closest_marker("data") is None)
    long = [item for item in items if item.get_closest_marker("minutes")]
    short = [item for item in items if not item.get_closest_marker("minutes")]
    items[:] = [*short[: len(short) // 2], *long, *short[len(short) // 2 :]]


def pytest_collection_finish() -> None:
    """What is loaded by now stays: whoever looks for garbage need not look there."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def blank_databases() -> Iterator[None]:
    from tests.blank import copied_tables

    with copied_tables():
        yield


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """The real traces beside the checkout, imported once for all workers."""
    from tests.shared import FOLDERS, LABELLED, imported_once  # else nobody needs what it loads

    return imported_once(_of_all_workers(tmp_path_factory), "shared", FOLDERS + LABELLED)


@pytest.fixture(scope="session")
def others(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """Those that `real` lacks, but for the large ones: few runs, of nearly every format."""
    from tests.shared import OTHERS, imported_once

    return imported_once(_of_all_workers(tmp_path_factory), "others", OTHERS)


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """The large ones."""
    from tests.shared import LARGE, imported_once

    return imported_once(_of_all_workers(tmp_path_factory), "large", LARGE)


def _of_all_workers(factory: pytest.TempPathFactory) -> Path:
    """A folder that the tests of one session share."""
    folder = factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
