"""`python -m tests.sentences`: writes every sentence the product can show, by module, to
`tests/goldens/sentences.txt`, so that its words can be read in one go.

A sentence is a string constant with a blank in it that is no docstring, no SQL and no pattern; what
is filled in stands as `{}`. Help texts of commands are docstrings that click shows:
`tests/goldens/commands` holds them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("arc_tui", "replay", "taxonomy")
FILE = ROOT / "tests/goldens/sentences.txt"

_SQL = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|PRAGMA|ALTER|WITH|BEGIN|JOIN|LEFT|AND|OR|WHERE|ORDER"
    r"|FROM|UNION|GROUP|ON|COMMIT|ROLLBACK|VACUUM|ATTACH|EXISTS|NOT)\b"
)
_PATTERN = re.compile(r"\\[dswbSWB]|\(\?|\[\^|\.\*|\$$")


def sentences(source: str) -> Iterator[str]:
    """Of a module, in order, each once."""
    tree = ast.parse(source)
    skipped = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(each) for each in ast.walk(node) if each is not node)
    seen: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        text = _text(node)
        if text is None or text in seen or not _is_sentence(text):
            continue
        seen.add(text)
        yield text


def _text(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
        )
        return "".join(parts)
    return None


def _is_sentence(text: str) -> bool:
    words = text.replace("{}", " ").strip()
    if not re.search(r"[A-Za-z]{2}", words) or " " not in text.strip():
        return False
    return not _SQL.match(text) and not _PATTERN.search(text)


def _docstrings(tree: ast.AST) -> set[int]:
    """The strings that stand alone: what a module, class, function or name is."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def written() -> str:
    """The whole list."""
    pages = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            found = [each.replace("\n", "⏎") for each in sentences(path.read_text())]
            if found:
                pages.append("\n".join([f"# {path.relative_to(ROOT).as_posix()}", *found]))
    return "\n\n".join(pages) + "\n"


if __name__ == "__main__":
    FILE.write_text(written())
