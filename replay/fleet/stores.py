"""The trace stores of a team, by name: where each is, who reads there, which services are asked. A
store is a database of ClickHouse, or a server of traces with an API of its own.

They stand in `fleets.toml` beside the settings. No password does: it comes from the environment
(`ARC_FLEET_NAME_PASSWORD`), else from the keyring of the system.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from replay import files
from replay.errors import ArcError, NotFound
from replay.written import toml_problem

NAME = "fleets.toml"

SERVICE = "arc-fleet"
"""What passwords in the keyring are under; each goes by the name of its store."""

_NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_SCHEMES = {"clickhouse": True, "clickhouse+http": False}
"""Whether the connection is encrypted, by the scheme of the URL."""

EXAMPLE = "clickhouse://reader@clickhouse.example.com:8443/otel"


class BadFleet(ArcError):
    """A store that cannot be asked as it is written: what is wrong, and what to do."""


class FleetStore(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One store, as it stands in the file. `services` are the only ones asked, () for all;
    `project` is the one asked, None for the only one; `langfuse` is the version whose tables are
    asked, None for the newer with rows; `ca` is a file of certificates to trust
    beside the system's; `server` is the product behind the URL of a server, "" for a store in
    ClickHouse; `allow_http` says that its URL may be without encryption.
    """

    url: str
    services: tuple[str, ...] = ()
    project: str | None = None
    langfuse: str | None = None
    ca: str | None = None
    server: str = ""
    allow_http: bool = False


class Address(Struct, frozen=True, kw_only=True):
    """The parts of a store's URL."""

    host: str
    port: int
    user: str
    database: str
    encrypted: bool

    def __str__(self) -> str:
        scheme = next(name for name, each in _SCHEMES.items() if each is self.encrypted)
        return f"{scheme}://{self.user}@{self.host}:{self.port}/{self.database}"


def is_server(url: str) -> bool:
    """Does the URL name a server of traces, and not a database?"""
    return url.startswith(("http://", "https://"))


def is_loopback(url: str) -> bool:
    """Does the URL name this machine?"""
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


SERVER_EXAMPLE = "https://phoenix.example.com"


def server_url(url: str, *, allow_http: bool = False) -> str:
    """The URL of a server of traces without what does not count. Raises BadFleet; a password is
    never repeated in what it says."""
    hint = f"Try: {SERVER_EXAMPLE}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise BadFleet(f"not a URL: {error}", hint) from error
    if parts.username is not None or parts.password is not None:
        raise BadFleet(
            "the URL holds a key, which would stand in a file and in the list of processes",
            "Try: arc fleet add NAME URL --password, which asks for it",
        )
    if not is_server(url) or not host:
        raise BadFleet("the URL of a server begins with https:// and its host", hint)
    if parts.query or parts.fragment:
        raise BadFleet("the URL of a server takes no options", hint)
    if parts.scheme == "http" and not (allow_http or is_loopback(url)):
        raise BadFleet(
            "http:// sends the key and the runs without encryption",
            "use https://, or allow it by --allow-http on a network of your own",
        )
    return url.rstrip("/")


def address_of(url: str) -> Address:
    """The parts of a URL. Raises BadFleet; a password is never repeated in what it says."""
    scheme, _, _ = url.partition("://")
    if scheme not in _SCHEMES:
        known = " or ".join(f"{each}://" for each in (*_SCHEMES, "https"))
        raise BadFleet(f"the URL of a store begins with {known}", f"Try: {EXAMPLE}")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadFleet(f"not a URL: {error}", f"Try: {EXAMPLE}") from error
    if parts.password is not None:
        raise BadFleet(
            "the URL holds a password, which would stand in a file and in the list of processes",
            "Try: arc fleet add NAME URL --password, which asks for it",
        )
    if not host:
        raise BadFleet("the URL names no host", f"Try: {EXAMPLE}")
    if parts.query or parts.fragment:
        raise BadFleet("the URL of a store takes no options", f"Try: {EXAMPLE}")
    database = unquote(parts.path.strip("/"))
    if "/" in database:
        raise BadFleet("the path of the URL is the name of one database", f"Try: {EXAMPLE}")
    encrypted = _SCHEMES[scheme]
    return Address(
        host=host,
        port=port or (8443 if encrypted else 8123),
        user=unquote(parts.username or "default"),
        database=database or "default",
        encrypted=encrypted,
    )


# --- the file


def read_stores(file: Path) -> dict[str, FleetStore]:
    """The stores of a file by name, {} where there is none. Raises BadFleet."""
    try:
        return msgspec.toml.decode(file.read_bytes(), type=dict[str, FleetStore])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadFleet(f"{file}: cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadFleet(f"{file}: {toml_problem(error)}") from error


def find_store(file: Path, name: str) -> FleetStore:
    """The store of that name. Raises NotFound, BadFleet."""
    known = read_stores(file)
    if name not in known:
        added = f"known: {', '.join(sorted(known))}" if known else "Try: arc fleet add NAME URL"
        raise NotFound("fleet", name, hint=added)
    return known[name]


def check_name(name: str) -> None:
    """Raises BadFleet where a store cannot be called so."""
    if not _NAMES.fullmatch(name):
        raise BadFleet(
            f"'{name}' cannot name a store",
            "Try: letters, digits, - and _, beginning with a letter",
        )


def keep_store(file: Path, name: str, store: FleetStore) -> None:
    """Write a store under its name, in place of one that had it. Raises BadFleet."""
    check_name(name)
    if is_server(store.url):
        server_url(store.url, allow_http=store.allow_http)
    else:
        address_of(store.url)
    _write(file, {**read_stores(file), name: store})


def drop_store(file: Path, name: str) -> None:
    """Take a store out of the file, and its password out of the keyring. Raises NotFound."""
    known = read_stores(file)
    find_store(file, name)
    del known[name]
    _write(file, known)
    _forget_password(name)


def _write(file: Path, stores: dict[str, FleetStore]) -> None:
    body = {
        name: {key: value for key, value in msgspec.to_builtins(each).items() if value}
        for name, each in sorted(stores.items())
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    with files.unlinked() as content:
        content.write(msgspec.toml.encode(body))
        content.seek(0)
        files.put(content, file)


# --- passwords


def variable(name: str) -> str:
    """The variable of the environment that holds the password of a store."""
    return f"ARC_FLEET_{re.sub(r'[^A-Za-z0-9]', '_', name).upper()}_PASSWORD"


def password_of(name: str) -> str:
    """From the environment, else from the keyring, else none, which is ""."""
    given = os.environ.get(variable(name))
    if given is not None:
        return given
    try:
        import keyring
        from keyring.errors import KeyringError
    except ModuleNotFoundError:
        return ""
    try:
        return keyring.get_password(SERVICE, name) or ""
    except KeyringError:
        return ""  # there is no keyring on this machine, or it stays shut


def keep_password(name: str, password: str) -> None:
    """Put a password into the keyring. Raises BadFleet where there is none."""
    import keyring
    from keyring.errors import KeyringError

    try:
        keyring.set_password(SERVICE, name, password)
    except KeyringError as error:
        raise BadFleet(
            f"the keyring does not take the password: {error}", f"Try: set {variable(name)}"
        ) from error


def _forget_password(name: str) -> None:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ModuleNotFoundError:
        return
    try:
        keyring.delete_password(SERVICE, name)
    except KeyringError:
        return  # it was not there
