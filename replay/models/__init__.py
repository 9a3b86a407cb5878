"""Who answers a request: one protocol, one module a model.

A model takes a Messages API request body and a sample number and returns a Messages API message,
both as plain JSON values. `demo` is local, rule-based and free; `claude` talks to a server;
`cached` stands in front of either and keeps every answer.
"""

from __future__ import annotations

from typing import Any, Protocol


class Model(Protocol):
    """Anything that answers. `name` stands beside every figure that came from it."""

    name: str

    def complete(self, body: dict[str, Any], sample: int) -> dict[str, Any]:
        """The message that answers `body`, the `sample`-th of it.

        Raises ModelRefused where the model declines the request, OfflineMiss where it may not ask.
        """
        ...
