"""Which product is behind a URL, with which key it is asked, and which of its projects is meant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Protocol

from replay.errors import ArcError, NotFound
from replay.fleet.stores import password_of, variable
from replay.formats.source import Tally
from replay.servers import langfuse, langsmith, phoenix
from replay.servers.connection import (
    Connection,
    CursorLost,
    ListedRun,
    Project,
    ServerError,
)
from replay.trace import Batch


class Product(Protocol):
    """What a module of a product owns."""

    NAME: str
    TITLE: str
    FORMAT: str
    VARIABLES: tuple[str, ...]
    NEEDS_KEY: bool
    LOOKED_FOR: str

    def find(self, connection: Connection) -> str | None: ...

    def headers(self, key: str) -> dict[str, str]: ...

    def projects(self, connection: Connection, named: str | None, /) -> list[Project]: ...

    def runs(
        self, connection: Connection, project: Project, from_ns: int, until_ns: int | None, /
    ) -> Iterator[ListedRun]: ...

    def read(
        self, connection: Connection, project: Project, run: str, path: str, tally: Tally, /
    ) -> Iterator[Batch]: ...


PRODUCTS: dict[str, Product] = {each.NAME: each for each in (phoenix, langfuse, langsmith)}


def find_product(connection: Connection, named: str = "") -> Product:
    """The product that answers, or the one that is named; requests go below its path from then on.

    No key is sent to find out. Raises ServerError where it is none of them.
    """
    asked = [PRODUCTS[named]] if named else list(PRODUCTS.values())
    for product in asked:
        prefix = product.find(connection)
        if prefix is not None:
            connection.below(prefix)
            return product
    looked = ", ".join(f"{each.LOOKED_FOR} ({each.TITLE})" for each in asked)
    raise ServerError(
        f"{connection.url} is no server of {' or '.join(each.TITLE for each in asked)}:"
        f" looked for {looked}",
        "Try: the address of the API; LangSmith's is https://api.smith.langchain.com",
    )


def use_key(connection: Connection, product: Product, store: str | None) -> None:
    """Send the key of that store, or, where the server has no name, the one in the product's own
    variables. Raises ArcError where one is needed and there is none."""
    if store is not None:
        key, hint = password_of(store), f"set {variable(store)}"
        hint += ", or keep it: arc fleet add NAME URL --password"
    else:
        parts = [os.environ.get(each, "") for each in product.VARIABLES]
        key = ":".join(parts) if all(parts) else ""
        hint = f"set {' and '.join(product.VARIABLES)}"
    hint = f"Try: {hint}"
    if not key and product.NEEDS_KEY:
        raise ArcError(f"{connection.name}: {product.TITLE} wants a key, and none is set", hint)
    if not key.isascii() or not key.isprintable():
        raise ArcError(f"{connection.name}: the key holds characters that no key has", hint)
    connection.use_key(product.headers(key), (key, *key.split(":")), hint)


def find_project(connection: Connection, product: Product, named: str | None) -> Project:
    """The project of that name or id; the only one where none is named. Raises NotFound, and
    ServerError where it cannot be told which is meant."""
    known = product.projects(connection, named)
    names = sorted(each.name for each in known)
    if named is not None:
        for each in known:
            if named in (each.name, each.id):
                return each
        hint = f"known: {_some(names)}" if names else "the server has no project"
        raise NotFound("project", named, get_close_matches(named, names), hint=hint)
    if len(known) == 1:
        return known[0]
    if not known:
        raise ServerError(f"{connection.name}: the server has no project yet")
    raise ServerError(
        f"{connection.name}: the server has {len(known)} projects: {_some(names)}",
        "Try: --project NAME",
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def every_run(
    connection: Connection, product: Product, project: Project, from_ns: int, until_ns: int | None
) -> Iterator[ListedRun]:
    """The runs of a project, the newest first, each once. Where the server loses its place in the
    list, it is asked again from the time of the last run on. Raises ServerError."""
    seen: set[str] = set()
    while True:
        before = len(seen)
        try:
            for run in product.runs(connection, project, from_ns, until_ns):
                if run.id not in seen:
                    seen.add(run.id)
                    until_ns = run.start_ns + 1_000_000  # servers keep milliseconds or finer
                    yield run
            return
        except CursorLost:
            if len(seen) == before:
                raise
