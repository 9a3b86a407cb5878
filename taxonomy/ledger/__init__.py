"""Judgements kept: tags, suggestions, scores, diagnoses; a migration set of their own.

Everything hangs on a trace's id and a span's id, never on row numbers, so it survives a trace that
is imported again and grew. Rules and judge write suggestions; only a person's word is a tag.
"""

from taxonomy.ledger.diagnoses import ENGINE, Suggested, diagnosis, keep, suggested, undiagnosed
from taxonomy.ledger.schema import migrations, open_ledger
from taxonomy.ledger.scores import (
    NOTE,
    Opinion,
    all_scores,
    give,
    judge_scores,
    judge_sets,
    keep_scores,
    last_opinion,
    opinion,
    opinions,
    replace_file_scores,
    take_back,
)
from taxonomy.ledger.tags import (
    Clearance,
    Tag,
    Word,
    clear,
    clearances,
    human_tags,
    human_words,
    tag,
    unclear,
    untag,
)

__all__ = [
    "ENGINE",
    "NOTE",
    "Clearance",
    "Opinion",
    "Suggested",
    "Tag",
    "Word",
    "all_scores",
    "clear",
    "clearances",
    "diagnosis",
    "give",
    "human_tags",
    "human_words",
    "judge_scores",
    "judge_sets",
    "keep",
    "keep_scores",
    "last_opinion",
    "migrations",
    "open_ledger",
    "opinion",
    "opinions",
    "replace_file_scores",
    "suggested",
    "tag",
    "take_back",
    "unclear",
    "undiagnosed",
    "untag",
]
