"""Files of this machine: only regular ones are read, and no temporary one outlives who made it.

A pipe, socket or device would keep its reader waiting for ever. A temporary file has no name where
that will do. What must have one (SQLite and editors open files by name) is of mode 0600 and stands
in a folder of this process, or beside the file it is to become and is noted in that folder: what a
killed process left is known by its lock, which the system has given up, and taken away by the next
start.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import io
import os
import re
import secrets
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

_CHUNK_BYTES = 1 << 20

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


# --- what is there


def is_special(path: Path) -> bool:
    """Is it a pipe, a socket or a device, or a link to one?"""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:  # whoever opens it says why
        return False


def opened(path: Path, buffering: int = _CHUNK_BYTES) -> IO[bytes]:
    """A regular file, opened for reading. Raises OSError for anything else, and never waits."""
    _refuse(path.stat().st_mode)  # to open a device may already do something
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _refuse(os.fstat(handle).st_mode)  # it may be another by now
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb", buffering)


def _refuse(mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file")


def read(path: Path) -> bytes:
    """What stands in a regular file. Raises OSError."""
    with opened(path) as file:
        return file.read()


def size(path: Path) -> int:
    """The bytes of a file, 0 where there is none or it cannot be seen."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def sync(path: Path) -> None:
    """A file or a folder to the disk, not only to the system's memory of it. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def new(path: Path) -> Path:
    """Make an empty file that nobody else may read. Raises OSError where one is there."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
    return path


# --- without a name


def unlinked() -> IO[bytes]:
    """A temporary file without a name: gone with the process, however that ends."""
    return tempfile.TemporaryFile(prefix="arc-")


class Spool:
    """A stream, kept in a file without a name so that it can be read more than once."""

    def __init__(self, stream: IO[bytes], begin: bytes = b"") -> None:
        file = unlinked()
        weakref.finalize(self, file.close)
        file.write(begin)
        shutil.copyfileobj(stream, file, _CHUNK_BYTES)
        file.flush()
        self.fileno = file.fileno

    def open(self) -> IO[bytes]:
        """The bytes from the start, whoever else reads them."""
        return io.BufferedReader(_Spooled(self), _CHUNK_BYTES)


class _Spooled(io.RawIOBase):
    """A reader with a place of its own."""

    def __init__(self, spool: Spool) -> None:
        self._spool, self._at = spool, 0

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._spool.fileno()

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        size = os.fstat(self._spool.fileno()).st_size
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: size}[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        found = os.pread(self._spool.fileno(), len(buffer), self._at)
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


# --- with a name


class _Own(NamedTuple):
    """The folder of a process; its lock is held as long as the handle is open."""

    process: int
    folder: Path
    lock: Path
    handle: int


_own: _Own | None = None


def _base() -> Path:
    """Where the folders of all processes of this user are."""
    return Path(tempfile.gettempdir(), f"arc-{os.getuid()}")


def _refuse_shared(base: Path) -> None:
    """Raises OSError where others could read what is put there, or have put something there."""
    state = base.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise PermissionError(
            errno.EPERM, "is not a private folder of yours; remove it or set TMPDIR", str(base)
        )


def _home() -> Path:
    """The folder of this process, made when it is first asked for."""
    global _own
    if _own is None or _own.process != os.getpid() or not _own.folder.is_dir():
        base = _base()
        with suppress(FileExistsError):
            base.mkdir(0o700)
        _refuse_shared(base)
        _own = _made(base)
        atexit.register(_leave, _own)
    return _own.folder


def _made(base: Path) -> _Own:
    while True:
        folder = base / secrets.token_hex(8)
        lock = folder.with_suffix(".lock")
        handle = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        if lock.exists():  # else it was taken for one that a killed process left
            folder.mkdir(0o700)
            return _Own(os.getpid(), folder, lock, handle)
        os.close(handle)


def _leave(own: _Own) -> None:
    if own.process == os.getpid():
        shutil.rmtree(own.folder, ignore_errors=True)
        own.lock.unlink(missing_ok=True)


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder that nobody else may look into, for files that must have a name. It is gone
    afterwards, and after a kill with the next start. Raises OSError where none can be made."""
    with tempfile.TemporaryDirectory(dir=_home()) as folder:
        yield Path(folder)


@contextmanager
def temporary_for(target: Path, *, folder: bool = False) -> Iterator[Path]:
    """An empty private file (or folder) in the folder of a target, to take its name when it is
    finished; whatever happens, it does not stay. Raises OSError where none can be made."""
    with _noted(target) as part:
        if folder:
            part.mkdir(0o700)
        else:
            new(part)
        yield part


@contextmanager
def _noted(target: Path) -> Iterator[Path]:
    """A name beside a target that the next start takes away if this process is killed."""
    part = target.absolute().with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    note = _home() / f"{secrets.token_hex(4)}.note"
    note.symlink_to(part)
    try:
        yield part
    finally:
        _remove(part)
        note.unlink(missing_ok=True)


def put(content: IO[bytes], target: Path) -> None:
    """Write what is left to read of a file to a target: all of it in one step, or nothing.

    Until it is whole and on the disk it has no name, where the file system can do that: a kill
    leaves nothing of it. Raises OSError.
    """
    with _noted(target) as part, _nameless(part) as made:
        shutil.copyfileobj(content, made, _CHUNK_BYTES)
        made.flush()
        os.fsync(made.fileno())
        if not part.exists():
            numbers = os.open(_NUMBERS, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:  # through `linkat`, which follows the link that the number is
                os.link(str(made.fileno()), part, src_dir_fd=numbers)
            finally:
                os.close(numbers)
        part.replace(target)


_NUMBERS = Path("/proc/self/fd")


def _nameless(part: Path) -> IO[bytes]:
    """A new private file in the folder of a part, under its name only where it needs one."""
    if hasattr(os, "O_TMPFILE") and _NUMBERS.is_dir():
        with suppress(OSError):
            return os.fdopen(os.open(part.parent, os.O_TMPFILE | os.O_WRONLY, 0o600), "wb")
    return new(part).open("wb")


def _remove(made: Path) -> list[Path]:
    """Take away a part and what SQLite put beside it; what there was of it."""
    found = list[Path]()
    for ending in ("", "-wal", "-shm", "-journal"):
        each = made.with_name(made.name + ending)
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
            found.append(each)
            continue
        with suppress(FileNotFoundError):
            each.unlink()
            found.append(each)
    return found


def sweep(folder: Path | None = None) -> tuple[Path, ...]:
    """Take away what killed processes of this user left; what that was. In `folder` parts are
    looked for that no process has a note of, as after a power cut."""
    base, left = _base(), list[Path]()
    with suppress(OSError):  # mostly because nothing was ever put there
        _refuse_shared(base)
        left += (each for lock in sorted(base.glob("*.lock")) for each in _swept(lock))
    if folder is not None and folder.is_dir():
        noted = {os.readlink(note) for note in base.glob("*/*.note")}
        for part in sorted(folder.absolute().iterdir()):
            mine = _PART.fullmatch(part.name) and part.lstat().st_uid == os.getuid()
            if mine and str(part) not in noted:
                left += _remove(part)
    return tuple(left)


_PART = re.compile(r".+\.[0-9a-f]{8}\.part")


def _swept(lock: Path) -> list[Path]:
    try:
        handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # another start was faster
        return []
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        folder, left = lock.with_suffix(""), list[Path]()
        for each in sorted(folder.iterdir()) if folder.is_dir() else ():
            if each.is_symlink():
                left += _remove(Path(os.readlink(each)))
            else:
                left += (path for path in each.rglob("*") if not path.is_dir())
        shutil.rmtree(folder, ignore_errors=True)
        lock.unlink(missing_ok=True)
        return left
    except OSError:  # its process is alive, or the disk refuses: the next start tries again
        return []
    finally:
        os.close(handle)
