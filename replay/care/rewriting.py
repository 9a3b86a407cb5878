"""A database under another key: encrypted, plain again, or with a new key.

The pages of an encrypted database are opened one by one where others are damaged.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from msgspec import Struct
from typing_extensions import override

from replay import files
from replay.care.pages import Damaged, Pages
from replay.errors import ArcError, StoreUnusable
from replay.store import encryption
from replay.store.connection import BUSY_TIMEOUT_S, PAGE_BYTES
from replay.store.encryption import ENCRYPTED_PAGE_BYTES, MAGIC, SALT_BYTES
from replay.store.trouble import StoreBusy, database_errors, unusable

_BUSY_S = BUSY_TIMEOUT_S
_CHUNK_BYTES = 1 << 20

Kept = Callable[[bytes], object]
"""Told the salt of the new file before it takes its place: time to keep its key safe."""


class Rewritten(Struct, frozen=True, kw_only=True):
    """What was done. `left` are files beside it that hold a plain database: copies, backups.

    `wiped` None: the old bytes had to stay, because the file has another name too.
    """

    file: Path
    tables: int
    rows: int
    bytes: int
    left: tuple[Path, ...]
    wiped: int | None


def require(file: Path, *, encrypted: bool) -> None:
    """Raises ArcError where the file is not so, StoreUnusable where no driver is installed: before
    anybody is asked for a key."""
    if encrypted and encryption.salt_of(file) is None:
        raise ArcError(f"{file}: is not encrypted", "Try: arc db encrypt")
    if not encrypted and encryption.salt_of(file) is not None:
        raise ArcError(f"{file}: is already encrypted", "Try: arc db rekey, to change the key")
    encryption.driver(file)


def encrypt(file: Path, key: str, kept: Kept | None = None) -> Rewritten:
    """Encrypt a plain database. Raises ArcError where it is already encrypted."""
    require(file, encrypted=False)
    return _rewritten(file, None, encryption.fit(key), kept)


def decrypt(file: Path) -> Rewritten:
    """Make an encrypted database plain. Raises ArcError where it is so already."""
    return _rewritten(file, _known_key(file), None, None)


def rekey(file: Path, key: str, kept: Kept | None = None) -> Rewritten:
    """Give an encrypted database another key. Raises ArcError where it is not encrypted."""
    return _rewritten(file, _known_key(file), encryption.fit(key), kept)


def _known_key(file: Path) -> str:
    """The key that opens it, ready-made."""
    require(file, encrypted=True)
    opened = encryption.connect(file, _BUSY_S)  # a wrong key ends here
    salt = encryption.salt_of(file)
    assert opened is not None
    assert salt is not None
    opened.close()
    return encryption.derived(encryption.find(file, salt).key, salt)


def _rewritten(file: Path, old: str | None, new: str | None, kept: Kept | None) -> Rewritten:
    file = file.resolve()  # the name of a link stays a link
    salt = secrets.token_bytes(SALT_BYTES) if new is not None else None
    target = encryption.derived(new, salt) if new is not None and salt is not None else None
    with _progress(file), closing(_alone(file, old)) as source, file.open("r+b") as bytes_of_old:
        # The handle is closed last: closing it gives up the locks that keep others away.
        with _exported(source, file, target) as made:
            tables, rows = _compared(source, file)
            if kept is not None and salt is not None:
                kept(salt)
            size = os.fstat(made.fileno()).st_size
            other_names = file.stat().st_nlink > 1
            files.put(made, file)
        files.sync(file.parent)
        wiped = None if other_names else 0 if new is None else _overwrite(bytes_of_old.fileno())
    encryption.look_again(file)
    if salt is not None and new is not None:
        encryption.remember(salt, new)
    return Rewritten(
        file=file,
        tables=tables,
        rows=rows,
        bytes=size,
        left=tuple(plain_beside(file)) if new is not None else (),
        wiped=wiped,
    )


def begin_like(file: Path, other: Path) -> None:
    """Begin an empty database at `other` under key and salt of `file`; nothing where that is
    plain. Whatever is saved of an encrypted file stays encrypted, with the same key."""
    salt = encryption.look_again(file)
    if salt is None:
        return
    key = encryption.derived(encryption.find(file, salt).key, salt)
    os.close(os.open(other, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(encryption.open_with(other, key, 0.0)) as begun:
        begun.execute("PRAGMA journal_mode = WAL").fetchone()


def plain_beside(file: Path) -> Iterator[Path]:
    """Files in the same folder that are named like the database and are plain databases."""
    for other in sorted(file.parent.iterdir()):
        named = other.name.startswith((f"{file.name}.", f"{file.name}-", f"{file.stem}-"))
        if named and other != file and other.is_file():
            with other.open("rb") as opened:
                if opened.read(len(MAGIC)) == MAGIC:
                    yield other


@contextmanager
def _progress(file: Path) -> Iterator[None]:
    """What goes wrong with the file or its disk leaves as a sentence."""
    try:
        yield
    except OSError as error:
        raise StoreUnusable(f"{file}: nothing was changed: {error.strerror}") from error
    except database_errors() as error:
        said = unusable(error, file)
        if said is None:
            raise
        if isinstance(said, StoreBusy):
            said = StoreBusy(
                f"{file}: in use by another process: nothing was changed",
                "Try: close arc everywhere else, then run it again",
            )
        raise said from error


def _alone(file: Path, key: str | None) -> sqlite3.Connection:
    """A connection that has the whole database to itself, its log taken in and gone."""
    with ExitStack() as undo:
        connection = undo.enter_context(closing(encryption.open_with(file, key, _BUSY_S)))
        connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
        undo.pop_all()
    return connection


@contextmanager
def _exported(source: sqlite3.Connection, file: Path, key: str | None) -> Iterator[IO[bytes]]:
    """The whole content under another key, attached as `made` and open for reading. The file has
    no name any more once SQLite has opened it: its bytes go with this process."""
    with files.temporary_for(file) as part, part.open("rb") as made:
        source.execute("ATTACH ? AS made KEY ?", (str(part), key or ""))
        try:
            part.unlink()
            source.execute("PRAGMA made.journal_mode = OFF").fetchone()  # it would have a name
            if key is None:
                source.execute(f"PRAGMA made.page_size = {PAGE_BYTES}")
            source.execute("SELECT sqlcipher_export('made')").fetchall()
            for name in ("user_version", "application_id"):
                (value,) = source.execute(f"PRAGMA main.{name}").fetchone()
                source.execute(f"PRAGMA made.{name} = {value}")
            os.fsync(made.fileno())
            source.execute("PRAGMA shrink_memory")  # what is compared is read from the file again
            yield made
        finally:
            source.execute("DETACH made")


def _compared(source: sqlite3.Connection, file: Path) -> tuple[int, int]:
    """(tables, rows) of the database and its export, which are the same. Raises StoreUnusable where
    not."""
    whole = source.execute("PRAGMA made.integrity_check").fetchone() == ("ok",)
    tables = _tables(source)
    same = whole and _schema(source, "main") == _schema(source, "made")
    counts = 0
    for table in tables if same else ():
        rows, digest = _digest(source, "main", table)
        same = same and (rows, digest) == _digest(source, "made", table)
        counts += rows
    if not same:
        raise StoreUnusable(
            f"{file}: the copy differs from the original: nothing was changed",
            "Try: check the disk, then run it again",
        )
    return len(tables), counts


def _schema(db: sqlite3.Connection, of: str) -> list[tuple[str, ...]]:
    found = db.execute(
        f"SELECT type, name, tbl_name, sql FROM {of}.sqlite_master ORDER BY type, name"
    )
    return found.fetchall()


def _tables(db: sqlite3.Connection) -> list[str]:
    """The tables that hold something themselves, those behind an index of words too."""
    found = db.execute(
        "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%'"
        " ESCAPE '\\' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
    )
    return [row[0] for row in found]


def _digest(db: sqlite3.Connection, of: str, table: str) -> tuple[int, str]:
    """How many rows a table has, and a digest over all that stands in them."""
    rows, digest = 0, hashlib.sha256()
    before, db.text_factory = db.text_factory, bytes
    try:
        for row in db.execute(f'SELECT * FROM {of}."{table}" NOT INDEXED'):
            rows += 1
            digest.update(repr(row).encode())
    finally:
        db.text_factory = before
    return rows, digest.hexdigest()


def _overwrite(handle: int) -> int:
    """Zeros over all the bytes of an open file, whose length stays; how many."""
    left = size = os.fstat(handle).st_size
    os.lseek(handle, 0, os.SEEK_SET)
    while left > 0:
        left -= os.write(handle, bytes(min(left, _CHUNK_BYTES)))
    os.fsync(handle)
    return size


START_BYTES, SEAL_BYTES = 16, 64
RESERVED_BYTES = START_BYTES + SEAL_BYTES

_SEAL_ITERATIONS = 2
_SEAL_MASK = 0x3A
_KEPT_PAGES = 256
_TRIED_PAGES = 64


class SealedPages(Pages):
    """The pages of an encrypted file, plain.

    Raises Damaged where the file has none at all, StoreUnusable where no key is known, where it
    opens none of them, or where the package is lacking that can.
    """

    def __init__(self, path: Path) -> None:
        salt = encryption.look_again(path)
        assert salt is not None, "is asked before"
        found = encryption.find(path, salt)
        self._aes = _aes(path)
        self._key = bytes.fromhex(encryption.derived(found.key, salt)[2:66])
        masked = bytes(byte ^ _SEAL_MASK for byte in salt)
        self._seal = hashlib.pbkdf2_hmac("sha512", self._key, masked, _SEAL_ITERATIONS, 32)
        super().__init__(path, size=ENCRYPTED_PAGE_BYTES, reserved=RESERVED_BYTES)
        self._kept = lru_cache(_KEPT_PAGES)(self._opened)
        if not any(map(self._opens, range(1, min(self.count, _TRIED_PAGES) + 1))):
            raise StoreUnusable(
                f"{path}: {found.where} does not decrypt any page",
                "Try: another key. If this is the right key, the start of the file is lost, and"
                " nothing can be read without it",
            )
        encryption.remember(salt, found.key)

    def _opens(self, number: int) -> bool:
        try:
            self.page(number)
        except Damaged:
            return False
        return True

    @override
    def page(self, number: int) -> bytes:
        return self._kept(number)

    def _opened(self, number: int) -> bytes:
        raw = super().page(number)
        begin, end = SALT_BYTES if number == 1 else 0, self.usable
        sealed = raw[begin : end + START_BYTES] + number.to_bytes(4, "little")
        seal = hmac.digest(self._seal, sealed, "sha512")
        if not hmac.compare_digest(seal, raw[end + START_BYTES : end + RESERVED_BYTES]):
            raise Damaged(number, "does not match its authentication code")
        plain: bytes = self._aes(self._key, raw[end : end + START_BYTES], raw[begin:end])
        return MAGIC[:begin] + plain + raw[end:]


def pages_of(path: Path) -> Pages:
    """The pages of a file, encrypted or not. Raises as `Pages` and `SealedPages`."""
    return Pages(path) if encryption.look_again(path) is None else SealedPages(path)


def _aes(path: Path) -> Any:
    """What decrypts: (key, the bytes it began with, cipher) to plain bytes."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ModuleNotFoundError as error:
        raise StoreUnusable(
            f"{path}: recovering an encrypted database needs the package cryptography, which"
            " is not installed",
            "Try: pip install 'arc-tui[crypt]'",
        ) from error

    def plain(key: bytes, start: bytes, cipher: bytes) -> bytes:
        opened = Cipher(algorithms.AES(key), modes.CBC(start)).decryptor()
        return opened.update(cipher) + opened.finalize()

    return plain
