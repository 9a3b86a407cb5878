"""What is said of failures, as a question asks it: how a class is named, and which words count.

A condition here is on a word: a tag or a suggestion, or a row of the view `failures`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from replay.store import Store
from taxonomy.classes import CLASSES, SUB_LABELS
from taxonomy.query.failures import COUNTS, FIRST, TAGS
from taxonomy.query.filter import Filter

Who: TypeAlias = Literal["said", "people", "first"]
"""Any word that counts, a person's tag, or the word that the Pareto counts."""

SEARCHED = ("trace", "task", "trial", "variant", "outcome", "class", "sub", "fault", "source", "by",
            "why")  # fmt: skip
"""The columns of a word that a plain one is looked for in."""

_TAGS = "SELECT r.run FROM tag w JOIN trace r ON r.key = w.trace AND r.complete WHERE ({})"
_SUGGESTIONS = (
    "SELECT r.run FROM suggestion w JOIN trace r ON r.key = w.trace AND r.complete AND r.preferred"
    f" WHERE {COUNTS} AND ({{}})"
)
_RUNS: dict[Who, tuple[str, ...]] = {
    "said": (_TAGS, _SUGGESTIONS),
    "people": (_TAGS.format("source = 'human' AND ({})"),),
    "first": (
        f"SELECT run FROM ({TAGS}) WHERE place = 1 AND ({{}})",
        "SELECT r.run FROM suggestion p"
        " JOIN trace r ON r.key = p.trace AND r.complete AND r.preferred"
        f" WHERE ({{}}) AND p.rowid = ({FIRST.format('rowid')}) AND r.run NOT IN ("
        "   SELECT o.run FROM tag g CROSS JOIN trace o ON o.key = g.trace AND o.complete)",
    ),
}
_WORDS: dict[Who, str] = {
    "said": "({})",
    "people": "source = 'human' AND ({})",
    "first": "place = 1 AND ({})",
}

_LABEL = (
    "class || coalesce(' / ' || sub, '')"
    " || CASE WHEN fault <> 'agent' THEN ' (' || fault || ')' ELSE '' END"
)


def on_runs(word: Filter, who: Who) -> Filter:
    """The runs of which such a word is said."""
    selects = _RUNS[who]
    sql = " UNION ALL ".join(select.format(word.sql) for select in selects)
    # By the sign a list is walked in its order: to sort the runs of a common word takes longer.
    return Filter(f"+run IN ({sql})", word.values * len(selects), recorded=True)


def on_words(word: Filter, who: Who) -> Filter:
    """The words themselves."""
    return Filter(_WORDS[who].format(word.sql), word.values)


def of_class(store: Store, name: str) -> Filter | None:
    """A class by its letter or how it begins, a label (`other / cap`, `loop (harness`), or a
    sub-label; `*` is any. None where no class and nothing said is called so."""
    wanted = " ".join(name.lower().split())
    if not wanted or wanted == "*":
        return Filter() if wanted else None
    names = [each.name.value for each in CLASSES if each.key == wanted]
    names = names or [each.name.value for each in CLASSES if each.name.startswith(wanted)]
    if names:
        return Filter(f"class IN ({', '.join('?' * len(names))})", tuple(names))
    for each in CLASSES:
        if wanted.startswith(each.name):
            found = Filter("class = ?", (each.name.value,))
            return found & Filter(f"substr(lower({_LABEL}), 1, ?) = ?", (len(wanted), wanted))
    if any(sub.lower().startswith(wanted) for sub in _subs(store)):
        return Filter("substr(lower(sub), 1, ?) = ?", (len(wanted), wanted))
    return None


def class_names() -> list[str]:
    """What to tell who named none."""
    return ["untagged", *(each.name.value for each in CLASSES)]


def _subs(store: Store) -> Sequence[str]:
    said = store.db.execute(
        "SELECT sub FROM tag WHERE sub IS NOT NULL"
        " UNION SELECT sub FROM suggestion WHERE sub IS NOT NULL"
    )
    return [*SUB_LABELS, *(row[0] for row in said)]
