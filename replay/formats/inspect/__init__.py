"""Inspect logs: `.eval` archives and `.json` documents, one trace a sample.

Inspect records each request as it was made, so most are exact. The path of a sample: the log is
opened (`log`; a zip by `archive`), a sample taken out as fields and bytes and read (`sample`): its
events are put into a tree (`tree`), where tools find their spans; the tree becomes spans (`spans`),
a model event with its context (`model_calls`), attachments put back as they are decoded; what the
scorers said becomes outcome and scores. Samples of old logs may hold no events, only messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.formats.inspect.archive import ZIP
from replay.formats.inspect.log import HEADERS, entries
from replay.formats.inspect.sample import read_sample
from replay.formats.source import Head, Source, Tally
from replay.trace import Batch, Level

NAME = "inspect"
TITLE = "Inspect logs"
FILES = ".eval, .json; often in logs/"
FIDELITY = (Level.EXACT, Level.PARTIAL, Level.NONE)
LACKS = "in old logs the tools; inputs that were kept out of the log"

_OPENING = re.compile(rb'\s*\{\s*"(version|status|eval)"\s*:')
_NEAR = 4096
"""Where in a document its `eval` has begun: only `version` and `status` come before it."""


def sniff(head: Head) -> bool:
    if head.data.startswith(ZIP):
        members = any(name.encode() in head.data for name in HEADERS)
        return members or head.name.endswith(".eval")
    data = head.data.removeprefix(b"\xef\xbb\xbf")
    near = Head(name=head.name, data=data[:_NEAR])
    return _OPENING.match(data) is not None and near.has(
        rb'"eval"\s*:\s*\{', rb'"(eval_id|run_id|task_id)"\s*:'
    )


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a sample. Raises BadTrace as `log.entries` does."""
    empty = True
    for entry in entries(source, tally):
        empty = False
        yield from read_sample(entry, source.display, tally)
    if empty:
        tally.problem("samples", "the log holds none")
