"""The recorder for Python agents: what a program asks models, kept exactly as it was asked.

    from replay.recorder import record

    with record("arc.db", task="refund"):            # everything asked in the body
        run_agent()

    client = record(Anthropic(), into="run.jsonl")   # everything this client asks

Calls that the SDKs of Anthropic and OpenAI make are recorded, synchronous, asynchronous and
streamed: the request with its system prompt and tools, the answer, the times. Keys and other
headers are not looked at, and secrets in texts are masked before anything is written: by the
built-in rules, and by `record(…, redact=Policy(…))`, since the settings of `arc` are not read here
(`arc_tui.config.read_redaction()` is the policy that they say). A path that ends in `.jsonl` is an
`arc/1` file, appended to when the recording is over; any other is a database, in which `arc` shows
the run while it grows. A recording that nobody ends is over when the program is.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from replay.recorder import clients
from replay.recorder.recording import About, RecordingSession

if TYPE_CHECKING:
    from replay.redact.rules import Policy

__all__ = ["RecordingSession", "record"]

Client = TypeVar("Client")


@overload
def record(
    what: str | Path,
    /,
    *,
    title: str | None = None,
    task: str | None = None,
    trial: str | None = None,
    variant: str | None = None,
    labels: Mapping[str, str] | None = None,
    apart: bool = False,
    redact: Policy | None = None,
) -> RecordingSession: ...


@overload
def record(
    what: Client,
    /,
    *,
    into: str | Path,
    title: str | None = None,
    task: str | None = None,
    trial: str | None = None,
    variant: str | None = None,
    labels: Mapping[str, str] | None = None,
    apart: bool = False,
    redact: Policy | None = None,
) -> Client: ...


def record(
    what: Any,
    /,
    *,
    into: str | Path | None = None,
    title: str | None = None,
    task: str | None = None,
    trial: str | None = None,
    variant: str | None = None,
    labels: Mapping[str, str] | None = None,
    apart: bool = False,
    redact: Policy | None = None,
) -> Any:
    """Record into a path what is asked in a `with` body, or what one client asks, which is
    returned.

    A recording is one run; `apart` makes one of every conversation in it; `redact` adds to the
    rules for secrets. Raises StoreUnusable or
    OSError where nothing can be written there, TypeError where `what` is no client.
    """
    about = About(title=title, task=task, trial=trial, variant=variant, labels=dict(labels or {}))
    if into is None:
        clients.install()
        return RecordingSession(Path(what), about, apart=apart, redact=redact)
    recording = RecordingSession(Path(into), about, apart=apart, redact=redact)
    clients.own(what, recording)
    return what
