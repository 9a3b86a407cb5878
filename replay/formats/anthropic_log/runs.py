"""Which calls make one run, and which of its threads is each a step of?

Calls of one conversation are one run, sub-agents included. Where the requests name the session of
the agent they come from (`metadata.user_id` of Claude Code), all its calls are one run: its main
thread is every conversation with the same tools as the longest (a compaction begins a new one), the
others are threads of their own. An answer of a batch is a run of its own; answers without requests,
one after another in one file, are taken for one run.

Of several calls that go on from the same one, the way to the newest call is the thread; the others
are branches. A failed call is a step of the thread it was asked in.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

from msgspec import Struct

from replay.formats.anthropic_log.links import Call
from replay.formats.normal import derived_id

MAIN = -1
"""The thread below the root; another one is named by the index of its first call."""

Key: TypeAlias = tuple[str, str | int]


class Run(Struct, frozen=True, kw_only=True, eq=False):
    """The calls of one run in the order of the log; `threads` by the index of a call.

    `source_id` names the run by its first call, so that a log that grows stays the same run.
    """

    source_id: str
    calls: tuple[Call, ...]
    threads: dict[int, int]
    session: str | None = None

    @property
    def last(self) -> int:
        return self.calls[-1].index


def runs(calls: list[Call]) -> list[Run]:
    """Every run of a log, in the order of their first calls."""
    keys: list[Key] = []
    groups: dict[Key, list[Call]] = {}
    for call in calls:
        keys.append(_key(call, keys))
        groups.setdefault(keys[-1], []).append(call)
    return [_run(key, own, keys) for key, own in groups.items()]


def _key(call: Call, keys: list[Key]) -> Key:
    if call.session is not None:
        return ("session", call.session)
    if call.bare and call.custom_id is None:
        return ("answers", 0)
    if call.parent is not None:
        return keys[call.parent]
    return keys[call.sent_by[0]] if call.sent_by is not None else ("call", call.index)


def _run(key: Key, own: list[Call], keys: list[Key]) -> Run:
    session = own[0].session if key[0] == "session" else None
    first = own[0]
    parents = {
        call.index: call.parent if call.parent is not None and keys[call.parent] == key else None
        for call in own
    }
    return Run(
        source_id=derived_id(session, first.name, first.asked.hex(), first.setting.hex()),
        calls=tuple(own),
        threads=_threads(own, parents, bare=key[0] == "answers"),
        session=session,
    )


def _threads(own: list[Call], parents: dict[int, int | None], *, bare: bool) -> dict[int, int]:
    conversation: dict[int, int] = {}
    for call in own:
        above = parents[call.index]
        conversation[call.index] = call.index if above is None else conversation[above]
    main = _main(own, conversation)
    heirs = _heirs(own, parents)
    threads: dict[int, int] = {}
    for call in own:
        above = parents[call.index]
        if above is None:
            threads[call.index] = MAIN if bare or call.index in main else call.index
        elif call.failed or heirs[above] == call.index:
            threads[call.index] = threads[above]
        else:
            threads[call.index] = call.index
    return threads


def _main(own: list[Call], conversation: dict[int, int]) -> set[int]:
    """The first calls of the conversations that are the main thread."""
    first = {call.index: call for call in own if conversation[call.index] == call.index}
    asked = {at for at, call in first.items() if call.sent_by is None}
    lengths = Counter(at for at in conversation.values() if at in asked)
    with_tools = [at for at in asked if first[at].toolset is not None] or [*asked]
    if own[0].session is None or not with_tools:
        return {own[0].index}
    longest = max(with_tools, key=lambda at: (lengths[at], -at))
    return {at for at in asked if first[at].toolset == first[longest].toolset}


def _heirs(own: list[Call], parents: dict[int, int | None]) -> dict[int, int]:
    """For every call, which of those that go on from it leads to the newest usable answer."""
    best: dict[int, tuple[bool, int]] = {}
    heirs: dict[int, int] = {}
    for call in reversed(own):
        reached = max(best.get(call.index, (False, -1)), (not call.failed, call.index))
        above = parents[call.index]
        if above is not None and reached > best.get(above, (False, -1)):
            best[above], heirs[above] = reached, call.index
    return heirs
