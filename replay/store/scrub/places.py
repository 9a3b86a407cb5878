"""Where may text from outside stand? Every column with text, by table.

A table that is not named here is not ours and is left alone; a test says so of every one that is.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

DIGEST = "a digest; it follows what it is of"
ID = "an id that arc derives by a hash"
WORD = "one of a few words of arc's own"
SECTION = "a part of the index of words, which is filled anew"


class Texts(Struct, frozen=True, kw_only=True):
    """The columns of a table: plain `text`, `json`, and `ours`, each with the reason why nothing
    from outside can stand in it.

    `derived` says in SQL which rows are made of a trace, its column `trace`, and made again when
    they are gone. Where the trace changes they go: what they quote may be half a secret, which no
    rule knows.
    """

    text: tuple[str, ...] = ()
    json: tuple[str, ...] = ()
    ours: Mapping[str, str] = field(default_factory=dict)
    derived: str = ""


Places = Mapping[str, Texts]

TAPE: Places = {
    "message": Texts(text=("role",), json=("body",), ours={"digest": DIGEST, "dialect": WORD}),
    "context": Texts(ours={"digest": DIGEST}),
    "toolset": Texts(json=("body",), ours={"digest": DIGEST}),
    "trace": Texts(
        text=(
            "format", "source_id", "item", "path", "title", "task", "trial", "variant", "agent",
            "outcome_value", "outcome_by", "models",
        ),
        json=("labels", "reference", "problems"),
        ours={
            "key": ID, "run": ID, "outcome": WORD, "fidelity": WORD, "content": DIGEST,
            "prompt": DIGEST,
        },
    ),
    "span": Texts(
        text=("span_id", "parent", "name", "error", "said_error", "place_span", "brief"),
        json=("detail",),
        ours={
            "kind": WORD, "time_quality": WORD, "status": WORD, "source_status": WORD,
            "digest": DIGEST,
        },
    ),
    "model_call": Texts(
        text=("model", "response_id", "response_model", "stop_raw", "agent"),
        json=("params", "fidelity_reasons"),
        ours={
            "stop": WORD, "cost_source": WORD, "fidelity": WORD,
            "prices": "the name of a table of prices that arc ships",
        },
    ),
    "tool_call": Texts(
        text=("call_id", "asked_by", "arguments_raw"),
        json=("arguments",),
        ours={"effect": WORD},
    ),
    "step": Texts(text=("thread",)),
    "message_step": Texts(),
}  # fmt: skip
"""What digests speak for."""

PLAIN: Places = {
    "source_score": Texts(text=("span_id", "name", "source", "label", "explanation")),
    "stub": Texts(text=("tool", "result", "source"), json=("arguments",), ours={"trace_key": ID}),
    "batch": Texts(text=("server", "id", "model"), json=("asks",)),
    "setting": Texts(text=("name",), json=("value",)),
}
"""What stands beside it, each row for itself."""

KEPT: Places = {
    "supplement": Texts(text=("name", "system"), json=("tools",), ours={"digest": DIGEST}),
    "trace_supplement": Texts(ours={"trace_key": ID, "supplement": DIGEST}),
    "edit": Texts(text=("name",), json=("body",), ours={"digest": DIGEST}),
    "answer": Texts(
        text=("server", "model", "source"),
        json=("body",),
        ours={"key": DIGEST, "prices": "the name of a table of prices that arc ships"},
    ),
    "claim": Texts(text=("server",), ours={"key": DIGEST, "owner": ID}),
    "replay": Texts(
        text=("model",),
        json=("core",),
        ours={"digest": DIGEST, "trace_key": ID, "edit": DIGEST, "kind": WORD},
    ),
    "latency": Texts(text=("name",), ours={"kind": WORD}),
}
"""What stands beside it and has digests of its own, or is a sum of other rows."""

INDEX: Places = {
    f"{table}{part}": Texts(ours=dict.fromkeys(columns, SECTION))
    for table in ("message_words", "span_words")
    for part, columns in (
        ("", ("words",)), ("_data", ()), ("_idx", ("segid", "term", "pgno")), ("_docsize", ()),
        ("_config", ("k", "v")),
    )
}  # fmt: skip

MIGRATIONS: Places = {
    "_sqlite_migrations": Texts(
        ours=dict.fromkeys(("migration_set", "name", "applied_at"), "which version made a table")
    )
}

STORE: Places = {**TAPE, **PLAIN, **KEPT, **INDEX, **MIGRATIONS}
"""All of the store's own tables."""
