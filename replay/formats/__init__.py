"""Which format is this file, and what does it hold?

A format is a module with `NAME` (its word in `--format`), `sniff(head)` (content decides, not the
extension) and `read(source, tally)` (batches of traces). `part_of`, where a module has it, tells
that a file belongs to another one, and `is_part` that it adds to those it was named with. What it
says of itself (`TITLE`, `FILES`, `FIDELITY`, `LACKS`, `VERIFIED`) is printed by `arc import
--list-formats` and in the docs. Adding a format is one module, one line in `_MODULES`, one
sample, one row of expected counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from msgspec import structs

from replay.errors import BadTrace
from replay.formats.sidecars import Sidecar
from replay.formats.source import Head, Parts, Source, Tally
from replay.pins import PIN_ATTRIBUTE, pins_of
from replay.trace import Batch, Level


class Format(Protocol):
    """What a module of this package offers.

    `FILES` are the kinds of files, and where they usually lie. `FIDELITY` are the levels that
    requests read from them can have, best first, and `LACKS` says what keeps them from being
    better. `VERIFIED` says what the reading was checked on: real files, or the source code of the
    tool that writes them.
    """

    NAME: str
    TITLE: str
    FILES: str
    LACKS: str
    VERIFIED: str

    @property
    def FIDELITY(self) -> tuple[Level, ...]: ...  # noqa: N802  a module's constant

    def sniff(self, head: Head) -> bool: ...

    def read(self, source: Source, tally: Tally) -> Iterator[Batch]: ...


_MODULES = (
    "arc",
    "report",
    "inspect",
    "atif",
    "gemini_cli",
    "claude_code",
    "codex",
    "copilot",
    "cline",
    "goose",
    "amazon_q",
    "vscode_chat",
    "opencode",
    "openclaw",
    "anthropic_log",
    "otlp",
    "openinference",
    "langfuse",
    "openai_agents",
    "mlflow",
    "langsmith",
    "weave",
    "sqlite",
    "swe_agent",
    "mini_swe_agent",
    "openhands",
    "whowhen",
    "toolbench",
    "bloom",
    "tau2",
    "tau_bench",
    "chat",
)
"""In the order they are asked; the most specific first."""


def formats() -> Iterator[Format]:
    """Every format, in the order they are asked; loaded as they are come to."""
    return (cast(Format, import_module(f"replay.formats.{name}")) for name in _MODULES)


def sniff(source: Source) -> Format | None:
    """The format that claims the source, None where none does."""
    head = source.head
    return next((found for found in formats() if found.sniff(head)), None)


def named(name: str) -> Format:
    """The format of that name. Raises BadTrace with the known names."""
    known = {found.NAME: found for found in formats()}
    if name not in known:
        raise BadTrace("--format", "", f"unknown format '{name}'", f"known: {', '.join(known)}")
    return known[name]


def load(
    source: Source,
    tally: Tally,
    *,
    format: Format | None = None,
    task_from: str | None = None,
    pins: Mapping[str, str] | None = None,
    read: Callable[[Tally], Iterator[Batch]] | None = None,
) -> Iterator[Batch]:
    """The batches of a source, its sidecars read in and `pins` (labels) put on its runs. `read` is
    how a part of it is read.

    Raises BadTrace where no format claims it or where it cannot be read; batches already yielded
    stay good.
    """
    chosen = format or sniff(source)
    if chosen is None:
        raise BadTrace(source.display, "", _unclaimed(source.head))
    sidecar = Sidecar.find(source, task_from)
    for batch in read(tally) if read is not None else chosen.read(source, tally):
        yield _pin(sidecar.fill(batch), pins or {})


def _pin(batch: Batch, pins: Mapping[str, str]) -> Batch:
    """With the given pins, and with labels that a source made of its pinning attributes."""
    labels = batch.header.labels
    found = {**pins_of(labels), **pins}
    if not found:
        return batch
    others = {name: value for name, value in labels.items() if not name.startswith(PIN_ATTRIBUTE)}
    header = structs.replace(batch.header, labels={**others, **found})
    return structs.replace(batch, header=header)


def _unclaimed(head: Head) -> str:
    if not head.data.strip():
        return "is empty"
    if b"\0" in head.data[:4096]:
        return "is binary and not a known archive"
    known = ", ".join(found.NAME for found in formats())
    return f"is not in a known format ({known})"


def part_of(path: Path) -> Path | None:
    """The main file of a session that this file is a part of, None where it stands alone."""
    for found in formats():
        belongs = cast("Callable[[Path], Path | None] | None", getattr(found, "part_of", None))
        main = belongs(path) if belongs is not None else None
        if main is not None:
            return main
    return None


def with_parts(sources: list[Source]) -> list[Source]:
    """Files that were named together: those that only add to traces of others of the same format
    are no sources of their own, but parts of these."""
    claims = [_format_of(source) for source in sources] if len(sources) > 1 else []
    for claimed in {claim.NAME: claim for claim in claims if claim is not None}.values():
        adds = cast("Callable[[Source], bool] | None", getattr(claimed, "is_part", None))
        if adds is None:
            continue
        own = [s for s, claim in zip(sources, claims, strict=True) if claim is claimed]
        added = [source for source in own if adds(source)]
        mains = [source for source in own if source not in added]
        if added and mains:
            parts = Parts([source.path for source in added], len(mains))
            for main in mains:
                main.parts = parts
            return [source for source in sources if source not in added]
    return sources


def _format_of(source: Source) -> Format | None:
    try:
        return None if source.is_special else sniff(source)
    except BadTrace:
        return None  # it says so when it is read
