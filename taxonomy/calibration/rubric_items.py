"""What may a person call a rubric item? The names of the judge's rubric, then the rules' own."""

from __future__ import annotations

from functools import cache


@cache
def item_names() -> tuple[str, ...]:
    """Every item that a judge or the rules answer."""
    from taxonomy.rubrics import QUESTIONS  # with all rules: only where an item is named
    from taxonomy.scores import FITS, FRESH

    return (*(question.name for question in QUESTIONS), FITS, FRESH)


def item_named(word: str) -> str | None:
    """The item of that name (`arguments grounded`, `arguments_grounded`) or of that key in a
    judge's answer (`state_reverified`); None: there is none."""
    from taxonomy.rubrics import QUESTIONS

    keys = {question.key.replace("_", " "): question.name for question in QUESTIONS}
    plain = {name.replace("-", " "): name for name in item_names()}
    wanted = " ".join(word.replace("_", " ").replace("-", " ").lower().split())
    return (keys | plain).get(wanted)
