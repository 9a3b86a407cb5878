"""A tool call on a page: the tool, and its arguments below it."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from arc_tui.ui import format
from arc_tui.ui.document import INDENT, Block, Item, value
from replay.action import Act


def call_blocks(call: Act, key: str, indent: int = INDENT) -> Iterator[Item]:
    """The call; `key` names the block of its arguments, which can be unfolded."""
    yield Block(text=format.one_line(call.tool), style="head", indent=indent)
    yield value(arguments_text(call), key=key, indent=indent + INDENT)


def arguments_text(call: Act) -> str:
    """The arguments as JSON, or as they came where they are none."""
    return call.raw if call.raw is not None else msgspec.json.encode(call.arguments).decode()
