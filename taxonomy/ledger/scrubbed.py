"""Where text from outside may stand in the ledger: what people write, what others quote."""

from __future__ import annotations

from replay.store.scrub.places import DIGEST, ID, WORD, Places, Texts

JUDGEMENTS: Places = {
    "tag": Texts(
        text=("span", "sub", "note", "by"),
        json=("evidence",),
        ours={"trace": ID, "class": WORD, "fault": WORD, "source": WORD},
    ),
    "suggestion": Texts(
        text=("span", "sub", "why", "by"),
        json=("evidence",),
        ours={"trace": ID, "class": WORD, "fault": WORD, "source": WORD},
        derived="source = 'rule'",
    ),
    "score": Texts(
        text=("span", "by"),
        json=("items",),
        ours={"trace": ID, "source": WORD},
        derived="source IN ('rule', 'import')",
    ),
    "diagnosis": Texts(
        text=("why",),
        json=("warnings", "body"),
        ours={
            "trace": ID, "content": DIGEST, "shape": WORD,
            "engine": "the name and version of arc's rules",
        },
        derived="1",
    ),
    "clearance": Texts(text=("by", "note"), ours={"trace": ID}),
}  # fmt: skip
"""The tables of the ledger. A row hangs on the ids of a trace and a span, masked alike in both."""
