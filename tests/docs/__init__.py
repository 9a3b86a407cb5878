"""The pages of the project: README, CONTRIBUTING, CHANGELOG and the site of `docs/`.

`python -m tests.docs [PAGE…]` writes what is generated in them: tables between marks (`blocks`),
and the output of commands (`console`). `python -m tests.docs --site FOLDER` builds the site there.
"""

from __future__ import annotations

from pathlib import Path

from tests.docs import blocks, console

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"


def pages() -> list[Path]:
    """Every page with something generated, and every page that others link to."""
    names = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", ".github/SECURITY.md")
    top = [ROOT / name for name in names if (ROOT / name).exists()]
    return top + sorted(DOCS.rglob("*.md"))


def rendered(text: str) -> str:
    """A page as it should be. Raises ValueError where a mark is not closed."""
    return console.played(tables(text))


def tables(text: str) -> str:
    """A page with every generated table as the code has it. Raises ValueError where a mark is not
    closed."""
    for name, block in blocks.BLOCKS.items():
        start, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        before, opened, rest = text.partition(start)
        if not opened:
            continue
        _, closed, after = rest.partition(end)
        if not closed:
            raise ValueError(f"{start} is not closed")
        text = f"{before}{start}\n\n{block()}\n\n{end}{after}"
    return text
