"""The models a server knows, and what it says about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from tests.messages_api.content import Body


class KnownModel(Struct, frozen=True):
    """A model of the catalogue; its limits are in tokens."""

    id: str
    max_input_tokens: int = 200_000
    max_tokens: int = 64_000
    lifecycle: Literal["active", "deprecated", "retired"] = "active"

    @property
    def info(self) -> Body:
        """As the catalogue shows it."""
        return {
            "type": "model",
            "id": self.id,
            "display_name": self.id.replace("-", " ").title(),
            "created_at": "2026-01-01T00:00:00Z",
            "max_input_tokens": self.max_input_tokens,
            "max_tokens": self.max_tokens,
            "lifecycle": self.lifecycle,
        }


class Catalogue:
    """The models of one server; without a list, every name is a model."""

    def __init__(self, known: Iterable[KnownModel] | None) -> None:
        self._any = known is None
        self._known = {each.id: each for each in known or [KnownModel("claude-test")]}

    def find(self, id: str) -> KnownModel | None:
        return self._known.get(id) or (KnownModel(id) if self._any else None)

    def page(self) -> Body:
        """The list, retired models left out."""
        shown = [each.info for each in self._known.values() if each.lifecycle != "retired"]
        return {
            "data": shown,
            "has_more": False,
            "first_id": shown[0]["id"] if shown else None,
            "last_id": shown[-1]["id"] if shown else None,
        }

    def serves(self, id: str) -> bool:
        found = self.find(id)
        return found is not None and found.lifecycle != "retired"

    def limit_refusal(self, body: Body, input_tokens: int) -> str | None:
        """Why a model that is served cannot take a request, None where it can."""
        model = self.find(body["model"])
        if model is None or self._any:
            return None
        if body.get("max_tokens", 0) > model.max_tokens:
            return f"max_tokens: {body['max_tokens']} > {model.max_tokens}, the most for {model.id}"
        if input_tokens > model.max_input_tokens:
            return f"prompt is too long: {input_tokens} tokens > {model.max_input_tokens} maximum"
        return None
