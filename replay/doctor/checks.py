"""What is looked at on this machine: Python, packages, key, server, proxies, the database."""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import stat
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Literal
from urllib.request import getproxies_environment

from msgspec import Struct

from replay import files
from replay.care.check import Health as Pages
from replay.care.check import health
from replay.errors import ModelRefused, StoreUnusable
from replay.models import protocol, servers
from replay.stop_order import stop_order
from replay.store import encryption
from replay.store.handle import Store

Health = Literal["ok", "warn", "fail", "unknown"]


class Check(Struct, frozen=True, kw_only=True):
    """`finding` is one line; `advice` is empty where nothing is to be done.

    `area` is the part that was looked at: database, machine, models or terminal. `warn` works, but
    not as well as it could; `fail` does not work; `unknown` cannot be told from here.
    """

    area: str
    name: str
    status: Health
    finding: str
    advice: str = ""


PACKAGES = ("textual", "rich", "msgspec", "sqlite-utils", "anthropic", "genai-prices")

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")

OLDEST_PYTHON = (3, 11)


def machine_checks() -> Iterator[Check]:
    """The interpreter and the packages."""
    yield _python()
    yield from (_package(name) for name in PACKAGES)


def model_checks() -> Iterator[Check]:
    """Whether a live call could be made, and by which way it would go."""
    try:
        base_url = protocol.server_url()
    except ModelRefused as error:
        yield _model("server", "fail", error.message, error.hint)
        return
    local = protocol.is_local(base_url)
    where = "this machine" if local else "data leaves this machine with --live"
    yield _model("server", "ok", f"{protocol.address(base_url)} ({where})")
    yield _key(local)
    yield _openai()
    yield _proxies(local)
    yield _kill()


def _machine(name: str, status: Health, finding: str, advice: str = "") -> Check:
    return Check(area="machine", name=name, status=status, finding=finding, advice=advice)


def _model(name: str, status: Health, finding: str, advice: str = "") -> Check:
    return Check(area="models", name=name, status=status, finding=finding, advice=advice)


def _python() -> Check:
    said = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info < OLDEST_PYTHON:
        return _machine("Python", "fail", said, "arc needs 3.11 or newer")
    return _machine("Python", "ok", said)


def _package(name: str) -> Check:
    try:
        return _machine(name, "ok", metadata.version(name))
    except metadata.PackageNotFoundError:
        return _machine(name, "fail", "not installed", "Try: reinstall arc in its own environment")


def _key(local: bool) -> Check:
    known = [name for name in KEYS if os.environ.get(name)]
    if known:
        return _model("key", "ok", f"{' and '.join(known)} set")
    if local:
        return _model("key", "ok", "not set; a local server needs none")
    said = f"{' and '.join(KEYS)} not set; the SDK may have its own login"
    return _model("key", "unknown", said, f"--live needs a key. Try: export {KEYS[0]}=…")


def _openai() -> Check:
    """Whether models of OpenAI's APIs could be asked, and where."""
    try:
        target = servers.resolve("openai:any")
        servers.require_key(target)
    except ModelRefused as error:
        return _model("OpenAI", "unknown", f"{error.message}; {error.hint}")
    said = f"openai {metadata.version('openai')}; {target.address}"
    return _model("OpenAI", "ok", said)


def _proxies(local: bool) -> Check:
    """By their kinds alone: an address of a proxy may hold a password."""
    known = sorted(set(getproxies_environment()) - {"no"})
    if not known:
        return _model("proxies", "ok", "not set")
    said = f"set for {', '.join(known)}"
    if local:
        return _model("proxies", "ok", f"{said}; calls to this machine bypass them")
    return _model("proxies", "ok", f"{said}; live calls use them")


def _kill() -> Check:
    why, named = protocol.killed(), os.environ.get(protocol.VARIABLE)
    if why is not None:
        return _model("kill file", "warn", f"live calls are stopped: {why}", f"rm {named}")
    said = (
        f"{protocol.VARIABLE} names {named}, which does not exist"
        if named
        else f"{protocol.VARIABLE} is not set"
    )
    return _model("kill file", "ok", said)


AREA = "database"


SCARCE_BYTES, NEXT_TO_NONE_BYTES = 1_000_000_000, 50_000_000
"""Free room on the disk below which it is worth a warning, and below which writing may fail."""

OLDEST_SQLITE = (3, 40)


def database_checks(path: Path, open_store: Callable[[Path], Store]) -> Iterator[Check]:
    """What can be said of the database at `path`. Makes no file where there is none."""
    yield _sqlite()
    if path.exists():
        yield _file(path)
        yield _check("encrypted", "ok", "yes" if encryption.is_encrypted(path) else "no")
        if os.name == "posix":
            yield _mode(path)
        yield from _content(path, open_store)
    else:
        said = f"{path}: not created yet. Try: arc import"
        yield _check("file", "ok", said)
    yield _room(path)
    yield _left(path)


def _check(name: str, status: Health, finding: str, advice: str = "") -> Check:
    return Check(area=AREA, name=name, status=status, finding=finding, advice=advice)


def _sqlite() -> Check:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        said = f"{sqlite3.sqlite_version} is older than {oldest}"
        return _check("SQLite", "fail", said, "Try: a Python with a newer SQLite")
    return _check("SQLite", "ok", sqlite3.sqlite_version)


def _file(path: Path) -> Check:
    log = path.with_name(path.name + "-wal")
    size = path.stat().st_size + (log.stat().st_size if log.exists() else 0)
    return _check("file", "ok", f"{path}, {_bytes(size)}")


def _mode(path: Path) -> Check:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        said = f"{mode:04o}: readable by other users of this machine"
        return _check("mode", "warn", said, f"Try: chmod 600 {path}")
    return _check("mode", "ok", f"{mode:04o}: private")


def _content(path: Path, open_store: Callable[[Path], Store]) -> Iterator[Check]:
    try:
        with open_store(path) as store:
            found = health(store)
    except StoreUnusable as error:
        yield _check("content", "fail", error.message, error.hint)
        return
    yield _pages(found)
    yield _journal(found)
    yield _check("schema", "ok", f"all applied: {', '.join(found.migrations)}")
    yield _check(
        "content",
        "ok",
        f"{found.traces} runs, {found.replays} replays, {found.answers} cached responses,"
        f" {found.batches} batches not fetched",
    )


def _pages(found: Pages) -> Check:
    if found.damage:
        advice = "Try: arc db verify, to list what is lost; arc db recover, to save the rest"
        return _check("pages", "fail", f"damaged: {'; '.join(found.damage)}", advice)
    return _check("pages", "ok", "OK. arc db verify checks the content too")


def _journal(found: Pages) -> Check:
    if found.journal != "wal":
        said = f"{found.journal}: readers and writers block each other"
        return _check("journal", "warn", said, "Try: keep the database on a local disk")
    return _check("journal", "ok", "write-ahead")


def _left(path: Path) -> Check:
    """What processes that were killed left, which is removed."""
    removed = files.sweep(path.absolute().parent)
    said = f"removed leftovers of a killed process: {', '.join(map(str, removed))}"
    return _check("leftovers", "ok", said if removed else "none")


def _room(path: Path) -> Check:
    place = next(each for each in path.absolute().parents if each.exists())
    free = shutil.disk_usage(place).free
    if free >= SCARCE_BYTES:
        return _check("disk", "ok", f"{_bytes(free)} free")
    status: Health = "warn" if free >= NEXT_TO_NONE_BYTES else "fail"
    return _check("disk", status, f"only {_bytes(free)} free", "Try: free space on that disk")


def _bytes(size: int) -> str:
    """A size in the largest unit that leaves something before the point."""
    for limit, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= limit:
            return f"{size / limit:.1f} {unit}"
    return f"{size} B"


def stop_check(path: Path) -> Check:
    """Whether `arc record` into a database is stopped."""
    order = stop_order(path)
    if order is None:
        return Check(area=AREA, name="recording", status="ok", finding="not stopped")
    return Check(
        area=AREA,
        name="recording",
        status="warn",
        finding=f"{order.text}. {order.scope}",
        advice="Try: arc stop --off",
    )
