"""A database encrypted, and that killed: a little every day, many times where it is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from replay.store.cipher import keys
from tests.faults.encrypted import rows

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL here"),
    pytest.mark.skipif(
        find_spec("sqlcipher3") is None, reason="sqlcipher3 (the extra `crypt`) is not installed"
    ),
]


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    keys.forget()
    yield
    keys.forget()


def test_an_encrypted_database_says_nothing_and_killed_encrypting_does_no_harm() -> None:
    assert [row for row in rows(runs=2, wrong=2, kills=1) if not row.kept] == []


@pytest.mark.slow
def test_the_same_with_many_wrong_keys_killed_often() -> None:
    assert [row for row in rows() if not row.kept] == []
