"""A database encrypted, and that killed: a little every day, many times where it is asked for."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from arc_tui.features.database.recover import follows
from replay.care import rewriting
from replay.care.recover import recover
from replay.errors import StoreUnusable
from replay.store import encryption
from taxonomy.judgements.schema import migrations
from tests.faults.encrypted import KEY, rows
from tests.faults.pruned import planted

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL here"),
    pytest.mark.skipif(
        find_spec("sqlcipher3") is None, reason="sqlcipher3 (the extra `crypt`) is not installed"
    ),
]


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    encryption.forget()
    yield
    encryption.forget()


@pytest.mark.process
def test_an_encrypted_database_says_nothing_and_killed_encrypting_does_no_harm() -> None:
    assert [row for row in rows(runs=2, wrong=2, kills=1, damages=3) if not row.kept] == []


def test_what_a_file_is_tell_most_of_its_pages_and_not_the_first_alone(tmp_path: Path) -> None:
    chance = random.Random(3)
    noise, plain = (
        chance.randbytes(encryption.ENCRYPTED_PAGE_BYTES),
        b"a word " * encryption.ENCRYPTED_PAGE_BYTES,
    )
    file = tmp_path / "arc.db"
    for first, rest, encrypted in (
        (noise, chance.randbytes(9 * encryption.ENCRYPTED_PAGE_BYTES), True),
        (noise, plain[: 9 * encryption.ENCRYPTED_PAGE_BYTES // 7 * 7], False),
        (
            bytes(encryption.ENCRYPTED_PAGE_BYTES),
            chance.randbytes(9 * encryption.ENCRYPTED_PAGE_BYTES),
            True,
        ),
        (
            encryption.MAGIC + noise[16:],
            chance.randbytes(9 * encryption.ENCRYPTED_PAGE_BYTES),
            False,
        ),
        (noise, b"", True),
        (noise[:100], b"", False),
    ):
        file.unlink(missing_ok=True)
        file.write_bytes(first + rest)
        assert (encryption.look_again(file) is not None) == encrypted
        assert encryption.is_encrypted(file) == encrypted


@pytest.mark.slow
def test_without_the_beginning_of_the_file_nothing_can_be_saved_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "arc.db"
    planted(file, 1, 3)
    monkeypatch.setenv(encryption.KEY, KEY)
    rewriting.encrypt(file, KEY)
    file.write_bytes(
        bytes(encryption.ENCRYPTED_PAGE_BYTES)
        + file.read_bytes()[encryption.ENCRYPTED_PAGE_BYTES :]
    )
    encryption.forget()
    monkeypatch.setenv(encryption.KEY, KEY)
    with pytest.raises(StoreUnusable, match="does not decrypt any page"):
        recover(file, tmp_path / "new.db", migrations, follows=follows)
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["arc.db"]


@pytest.mark.slow
def test_the_same_with_many_wrong_keys_killed_often() -> None:
    some = rows(wrong=20, kills=20, damages=30)
    assert [row for row in some if not row.kept] == []
