"""Which server is asked, and under which name are its answers kept?

Two servers may serve different models under one name, so an answer belongs to the server that gave
it. The official API is "", and so is a model of this process; any other server is its address
without what may vary or must not be written down: user, password, case of the host, last slash.
"""

from __future__ import annotations

import os
from urllib.parse import SplitResult, urlsplit

from replay.errors import ModelRefused

OFFICIAL = "https://api.anthropic.com"
VARIABLE = "ANTHROPIC_BASE_URL"

_PORTS = {"http": 80, "https": 443}


def base_url(given: str | None = None) -> str:
    """Where calls go: what is given, else what the environment names, else the official API.

    Raises ModelRefused where that is no address of a server of the Messages API.
    """
    url = given or os.environ.get(VARIABLE) or OFFICIAL
    bare = url.rstrip("/")
    if bare.endswith("/v1"):
        raise ModelRefused(
            f"{VARIABLE} must not end in /v1, which is added: {address(url)}",
            f"set it to {address(bare.removesuffix('/v1'))}",
        )
    address(url)
    return url


def name(url: str) -> str:
    """What the answers of a server are kept under: "" for the official API, else its address."""
    found = address(url)
    return "" if found == OFFICIAL else found


def address(url_or_name: str) -> str:
    """`scheme://host[:port][/path]` of an address or a name, fit to be shown and compared.

    Raises ModelRefused where it is none.
    """
    parts = urlsplit(url_or_name or OFFICIAL)
    host, port = _place(parts)
    if not host or parts.scheme not in _PORTS:
        raise ModelRefused(
            f"{VARIABLE} is no address of a server", "it looks like http://localhost:11434"
        )
    shown = f"[{host}]" if ":" in host else host
    beside = f":{port}" if port is not None and port != _PORTS[parts.scheme] else ""
    return f"{parts.scheme}://{shown}{beside}{parts.path.rstrip('/')}"


def is_local(url: str) -> bool:
    """Does the address name this machine?"""
    host = urlsplit(url).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


def _place(parts: SplitResult) -> tuple[str, int | None]:
    """Host (lower case) and port; no host where the port is no number."""
    try:
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None
