"""An encrypted database: every command and the app open it with its key, nobody without."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from arc_tui import cli as unlocking
from arc_tui import importing
from arc_tui.cli import ask_for_key, unlock
from arc_tui.commands import cli
from arc_tui.places import fixtures
from replay.care import rewriting
from replay.errors import ArcError, StoreUnusable
from replay.store import encryption
from replay.store.rows import trace_rows
from replay.store.search import traces_saying
from taxonomy.judgements.schema import open_ledger

pytestmark = pytest.mark.skipif(
    find_spec("sqlcipher3") is None, reason="sqlcipher3 (the extra `crypt`) is not installed"
)

RUNS = ("shop-many-wishes-v5-0", "shop-warranty-v3-0", "shop-stock-v4-0")
KEY, OTHER = 'correct horse\'s "battery"', "another key altogether"
ENVIRONMENT = (encryption.KEY, encryption.KEY_FILE, encryption.NEW_KEY, encryption.NEW_KEY_FILE)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "arc.db"
    with open_ledger(path) as store:
        files = [fixtures() / "traces" / f"{name}.jsonl" for name in RUNS]
        for _ in importing.import_paths(store, files):
            pass
    return path


@pytest.fixture(scope="module")
def encrypted(plain: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = Path(shutil.copy(plain, tmp_path_factory.mktemp("encrypted") / "arc.db"))
    rewriting.encrypt(path, KEY)
    return path


@pytest.fixture
def db(encrypted: Path, tmp_path: Path) -> Path:
    """A copy of the encrypted one; nobody knows its key yet."""
    return Path(shutil.copy(encrypted, tmp_path / "arc.db"))


@pytest.fixture
def open_one(plain: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(plain, tmp_path / "plain.db"))


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    _forget()
    yield
    _forget()


def _forget() -> None:
    """As in a new process, but for what was derived, which only takes time."""
    encryption._taken.clear()
    encryption._known.clear()
    encryption.ask_with(ask_for_key)


def run(path: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["--db", str(path), *arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def runs(path: Path) -> int:
    with open_ledger(path) as store:
        return len(trace_rows(store, every=True))


# --- opening


@pytest.mark.parametrize(
    "words",
    [
        ["ls"],
        ["show", "last"],
        ["search", "order"],
        ["diagnose", "last"],
        ["stats"],
        ["failures"],
        ["tag", "add", "last", "1", "loop", "--note", "seen"],
        ["db", "verify"],
        ["doctor"],
        ["import", str(fixtures() / "traces" / "shop-compare-v8-0.jsonl")],
        ["db", "prune", "outcome:failed", "--yes"],
    ],
)
def test_every_command_opens_it_with_its_key(
    words: list[str], db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(encryption.KEY, KEY)
    run(db, *words)
    assert not db.read_bytes().startswith(encryption.MAGIC)


def test_what_is_in_it_is_what_was(db: Path, plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(encryption.KEY, KEY)
    assert run(db, "ls", "--json").stdout == run(plain, "ls", "--json").stdout
    with open_ledger(db) as one, open_ledger(plain) as other:
        assert traces_saying(one, "order") == traces_saying(other, "order")
        assert traces_saying(one, "order")


def test_a_key_file_opens_it_too(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    monkeypatch.setenv(encryption.KEY_FILE, str(tmp_path / "key"))
    assert runs(db) == len(RUNS)
    _forget()
    monkeypatch.setenv(encryption.KEY_FILE, str(tmp_path / "none"))
    with pytest.raises(StoreUnusable, match="key file cannot be read"):
        runs(db)


@pytest.mark.process
@pytest.mark.parametrize(
    ("key", "said"),
    [
        (None, "is encrypted, and there is no terminal to read its key from"),
        ("a wrong key", "the key in ARC_DB_KEY does not decrypt it"),
    ],
)
def test_without_its_key_there_is_a_sentence_and_code_2_and_nothing_else(
    key: str | None, said: str, db: Path
) -> None:
    before = db.read_bytes()
    environment = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    done = subprocess.run(
        [sys.executable, "-m", "arc_tui", "--db", str(db), "ls"],
        env=environment if key is None else environment | {encryption.KEY: key},
        capture_output=True,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    first, hint = done.stderr.splitlines()
    assert (done.returncode, done.stdout) == (2, "")
    assert said in first
    assert hint
    assert key is None or key not in done.stderr
    assert db.read_bytes() == before


def test_the_key_leaves_the_environment_so_that_no_child_has_it(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(encryption.KEY, KEY)
    monkeypatch.setenv(encryption.NEW_KEY, OTHER)
    assert runs(db) == len(RUNS)
    assert encryption.KEY not in os.environ
    assert encryption.NEW_KEY not in os.environ
    assert runs(db) == len(RUNS)


@pytest.mark.slow
def test_the_key_is_asked_once_for_the_connections_of_all_threads(db: Path) -> None:
    asked: list[Path] = []

    def ask(file: Path) -> str:
        asked.append(file)
        return KEY

    encryption.ask_with(ask)
    runs(db)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(runs, [db] * 8)) == [len(RUNS)] * 8
    assert asked == [db]


@pytest.mark.pilot
async def test_the_app_shows_its_runs_and_asks_nobody(db: Path) -> None:
    from arc_tui.app import ArcApp
    from tests.screen import settle, text

    asked: list[Path] = []
    encryption.ask_with(lambda file: asked.append(file) or KEY)  # type: ignore[func-returns-value]
    unlock(db)
    app = ArcApp(db)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert "warranty" in text(app)
    assert asked == [db]


def test_the_tools_of_sqlcipher_open_it_with_the_same_text(db: Path) -> None:
    with closing(encryption.driver(db).connect(str(db))) as other:
        quoted = KEY.replace("'", "''")
        other.execute(f"PRAGMA key = '{quoted}'")
        assert other.execute("SELECT count(*) FROM trace").fetchone() == (len(RUNS),)


def test_a_file_that_is_no_database_is_not_taken_for_an_encrypted_one(tmp_path: Path) -> None:
    letter = tmp_path / "letter.txt"
    letter.write_text("Dear reader, this is no database. " * 200)
    assert encryption.salt_of(letter) is None
    with pytest.raises(StoreUnusable, match="is not a database"):
        open_ledger(letter)


def test_without_the_driver_the_sentence_says_what_to_install(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(encryption.KEY, KEY)
    monkeypatch.setitem(sys.modules, "sqlcipher3", None)
    with pytest.raises(StoreUnusable) as raised:
        runs(db)
    assert "sqlcipher3" in raised.value.message
    assert "arc-tui[crypt]" in raised.value.hint


# --- encrypting, and back


@pytest.mark.slow
def test_a_database_is_encrypted_given_another_key_and_made_plain(
    open_one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(open_one)) as db:
        before = sorted(db.iterdump())
    backup = Path(shutil.copy(open_one, f"{open_one}.0005.bak"))
    monkeypatch.setenv(encryption.KEY, KEY)
    said = run(open_one, "db", "encrypt")
    assert "encrypted" in said.stdout
    assert "compared" in said.stdout
    assert f"not encrypted: {backup}" in said.stderr
    assert "bundles, exports and what commands print are not encrypted" in said.stderr
    assert not open_one.read_bytes().startswith(encryption.MAGIC)
    assert oct(open_one.stat().st_mode & 0o777) == "0o600"
    with pytest.raises(ArcError, match="is already encrypted"):
        run(open_one, "db", "encrypt")

    monkeypatch.setenv(encryption.NEW_KEY, OTHER)
    run(open_one, "db", "rekey", "--key-from", "env")
    _forget()
    monkeypatch.setenv(encryption.KEY, KEY)
    with pytest.raises(StoreUnusable, match="does not decrypt it"):
        runs(open_one)
    _forget()
    monkeypatch.setenv(encryption.KEY, OTHER)
    assert runs(open_one) == len(RUNS)

    run(open_one, "db", "decrypt")
    _forget()
    with closing(sqlite3.connect(open_one)) as db:
        assert sorted(db.iterdump()) == before
    with pytest.raises(ArcError, match="is not encrypted"):
        run(open_one, "db", "decrypt")


@pytest.mark.slow
def test_the_old_bytes_are_overwritten(open_one: Path) -> None:
    with open_one.open("rb") as old:
        rewriting.encrypt(open_one, KEY)
        old.seek(0)
        assert set(old.read()) == {0}


@pytest.mark.slow
def test_a_file_of_two_names_keeps_its_bytes_under_the_other(
    open_one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = open_one.with_name("snapshot")
    snapshot.hardlink_to(open_one)
    monkeypatch.setenv(encryption.KEY, KEY)
    assert "second hard link" in run(open_one, "db", "encrypt").stderr
    assert runs(snapshot) == runs(open_one) == len(RUNS)


@pytest.mark.slow
def test_a_database_that_is_open_elsewhere_is_left_as_it_is(
    open_one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "_BUSY_S", 0.0)
    code = (
        "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]);"
        " db.execute('SELECT count(*) FROM trace').fetchone(); print('open', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(open_one)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(StoreUnusable, match="in use by another process"):
            rewriting.encrypt(open_one, KEY)
        other.communicate(b"\n")
    assert runs(open_one) == len(RUNS)
    assert [each.name for each in open_one.parent.iterdir() if each.suffix == ".part"] == []


@pytest.mark.slow
def test_what_fails_before_the_swap_leaves_the_old_file_and_nothing_beside_it(
    open_one: Path,
) -> None:
    def no_keyring(salt: bytes) -> None:
        raise ArcError("the keyring is shut")

    before = open_one.read_bytes()
    with pytest.raises(ArcError, match="the keyring is shut"):
        rewriting.encrypt(open_one, KEY, no_keyring)
    assert open_one.read_bytes()[100:] == before[100:]  # its head tells how the log is kept
    assert [each.name for each in open_one.parent.iterdir()] == [open_one.name]


@pytest.mark.slow
def test_a_new_database_can_be_encrypted_before_anything_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(encryption.KEY, KEY)
    run(tmp_path / "new.db", "db", "encrypt")
    run(tmp_path / "new.db", "import", str(fixtures() / "traces" / f"{RUNS[0]}.jsonl"))
    assert runs(tmp_path / "new.db") == 1
    assert not (tmp_path / "new.db").read_bytes().startswith(encryption.MAGIC)


@pytest.mark.parametrize("key", ["short", "", "with a \0 in it"])
def test_a_key_that_is_too_short_or_cannot_be_is_refused(key: str, open_one: Path) -> None:
    with pytest.raises(ArcError, match="a key must"):
        rewriting.encrypt(open_one, key)


@pytest.mark.slow
def test_a_key_is_typed_twice(open_one: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter([KEY, OTHER, KEY, KEY])
    monkeypatch.setattr(unlocking, "_can_ask", lambda: True)
    monkeypatch.setattr("getpass.getpass", lambda *_: next(typed))
    with pytest.raises(ArcError, match="the two keys differ"):
        run(open_one, "db", "encrypt", "--key-from", "prompt")
    run(open_one, "db", "encrypt", "--key-from", "prompt")
    assert encryption.salt_of(open_one) is not None
    assert runs(open_one) == len(RUNS)


def test_no_key_goes_through_an_argument() -> None:
    from arc_tui.features.database.command import decrypt, encrypt, rekey

    for command in (encrypt, decrypt, rekey):
        assert {each.name for each in command.params} <= {"source", "db"}


# --- a keyring


@pytest.mark.slow
def test_a_key_made_for_the_keyring_opens_it_wherever_the_file_is_moved(
    open_one: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = pytest.importorskip("keyring")
    from keyring.backend import KeyringBackend
    from keyring.errors import PasswordDeleteError

    class Memory(KeyringBackend):
        """A keyring for one test."""

        priority = 1

        def __init__(self) -> None:
            self.kept: dict[tuple[str, str], str] = {}

        def get_password(self, service: str, username: str) -> str | None:
            return self.kept.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            self.kept[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            if self.kept.pop((service, username), None) is None:
                raise PasswordDeleteError

    before, memory = keyring.get_keyring(), Memory()
    keyring.set_keyring(memory)
    try:
        run(open_one, "db", "encrypt", "--key-from", "keyring")
        (key,) = memory.kept.values()
        _forget()
        moved = open_one.rename(open_one.with_name("moved.db"))
        assert runs(moved) == len(RUNS)
        _forget()
        run(moved, "db", "rekey", "--key-from", "keyring")
        assert key not in memory.kept.values()
        assert len(memory.kept) == 1
        _forget()
        run(moved, "db", "decrypt")
        assert memory.kept == {}
    finally:
        keyring.set_keyring(before)
    _forget()
    assert runs(moved) == len(RUNS)
