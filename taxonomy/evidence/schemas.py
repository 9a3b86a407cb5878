"""Does a call fit the tool as it was offered: is there such a tool, and do its arguments validate?

Answers only where the source recorded the tools: `request.tools` None knows nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from replay.trace import Json, Tool
from taxonomy.evidence.reading import Act, Turn
from taxonomy.evidence.results import cut

if TYPE_CHECKING:
    from jsonschema_rs import Validator


class Misfit(Struct, frozen=True, kw_only=True):
    """One way in which arguments break their schema: where, and the validator's words."""

    path: str
    why: str


class Schemas:
    """The validators of a trace's tools, each compiled once."""

    def __init__(self) -> None:
        self._compiled: dict[int, Validator | None] = {}
        self._kept: list[Tool] = []

    def misfits(self, turn: Turn, act: Act) -> tuple[Misfit, ...] | None:
        """How a call breaks its tool's schema, () where it fits, None where that is not known."""
        tool = offered(turn, act.name)
        if act.cut or act.span.arguments is None:
            return None
        if tool is None or not isinstance(tool.schema, dict):
            return None
        validator = self._validator(tool)
        if validator is None:
            return None
        return tuple(
            Misfit(path=".".join(map(str, error.instance_path)), why=cut(error.message))
            for error in validator.iter_errors(act.span.arguments)
        )

    def _validator(self, tool: Tool) -> Validator | None:
        if id(tool) not in self._compiled:
            self._kept.append(tool)  # an id is only its own while the tool lives
            self._compiled[id(tool)] = _compiled(tool.schema)
        return self._compiled[id(tool)]


def offered(turn: Turn, name: str) -> Tool | None:
    """The tool of that name among those offered at a step, None where there is none or no list."""
    return next((tool for tool in turn.ask.request.tools or () if tool.name == name), None)


def unknown_tool(turn: Turn, act: Act) -> bool | None:
    """Was a tool called that was not offered? None where the offers are not recorded."""
    tools = turn.ask.request.tools
    return None if not tools else offered(turn, act.name) is None


def _compiled(schema: Json) -> Validator | None:
    """A schema's validator, None where the schema itself is not valid: no verdict comes of it."""
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return None
