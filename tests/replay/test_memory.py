"""Memory that was freed is given back to the system."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

from replay.memory import give_back

TAKE_AND_FREE = """
from pathlib import Path
from replay.memory import give_back

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

kept, texts = [], []
for number in range(2_000):
    texts.append("x" * 50_000)
    kept.append("y" * 600 + str(number))  # what is made of the text stands behind it
texts.clear()
before = held()
give_back()
print(before - held())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is given back on Linux alone")
def test_memory_between_what_is_kept_is_given_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TAKE_AND_FREE], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) > 50_000_000


def test_other_systems_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    monkeypatch.setattr(ctypes, "CDLL", asked.append)
    monkeypatch.setattr(sys, "platform", "darwin")
    give_back()
    assert asked == []
