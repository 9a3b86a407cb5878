"""One thing that was looked at, and what to do where it is not as it should be."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

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
