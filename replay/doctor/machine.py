"""What a replay would run with: Python, the packages, a key, a server, a way past proxies.

Nothing is imported, opened or asked to find out, and no value of a secret is ever read out: only
whether its variable is set.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from importlib import metadata
from urllib.request import getproxies_environment

from replay.doctor.check import Check, Health
from replay.errors import ModelRefused
from replay.models import kill, server

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
        base_url = server.base_url()
    except ModelRefused as error:
        yield _model("server", "fail", error.message, error.hint)
        return
    local = server.is_local(base_url)
    where = "this machine" if local else "leaves this machine with --live"
    yield _model("server", "ok", f"{server.address(base_url)} ({where})")
    yield _key(local)
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
        return _machine(name, "fail", "not installed", "install arc again, in its own environment")


def _key(local: bool) -> Check:
    known = [name for name in KEYS if os.environ.get(name)]
    if known:
        return _model("key", "ok", f"{' and '.join(known)} set")
    if local:
        return _model("key", "ok", "none set, and a server on this machine needs none")
    said = f"neither {' nor '.join(KEYS)} is set; the SDK's own log-in may still have one"
    return _model("key", "unknown", said, f"live calls need one: set {KEYS[0]}")


def _proxies(local: bool) -> Check:
    """By their kinds alone: an address of a proxy may hold a password."""
    known = sorted(set(getproxies_environment()) - {"no"})
    if not known:
        return _model("proxies", "ok", "none set")
    said = f"set for {', '.join(known)}"
    if local:
        return _model("proxies", "ok", f"{said}; calls to this machine go past them")
    return _model("proxies", "ok", f"{said}; live calls go through them")


def _kill() -> Check:
    why, named = kill.killed(), os.environ.get(kill.VARIABLE)
    if why is not None:
        return _model("kill file", "warn", f"no live call is made: {why}", f"rm {named}")
    said = f"{kill.VARIABLE} names {named}, not there" if named else f"{kill.VARIABLE} is not set"
    return _model("kill file", "ok", said)
