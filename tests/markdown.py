"""Markdown as a reader of an issue gets it: parsed by a CommonMark parser with GitHub's tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.cells import cell_len

from arc_tui.ui.markdown import WIDTH

HOSTILE = (
    "@torvalds please see #1 and GH-2 or octo/repo#3, `code` ``` ```` fence\n"
    "</code></details><script>alert(1)</script><img src=x onerror=alert(2)> <!-- | a || b \\| c\n"
    "[click](javascript:alert(3)) ![x](http://evil.example/x.png) <http://evil.example>\n"
    "http://evil.example www.evil.example **bold** _em_ ~~gone~~ &lt;b&gt; $x^2$ :tada:\n"
    "# heading\n- [ ] task\n> quote\n---\n    indented\n````\n```js\nlet x\n"
    "\u202eright to left \x1b[31mred\x07 \u2028 " + "x" * 300
)
"""What somebody puts into a trace to have it do something where it is shown."""

OURS = re.compile(r"<details><summary>[\w ,:'·()+.–-]*</summary>\n?|</details>\n?|</?code>")
"""HTML that arc writes; what stands between it has no foreign word."""


def parsed(text: str) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(text)


def every(tokens: list[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from every(token.children or [])


def assert_neutral(text: str) -> None:
    """Nothing that a trace holds is markup, a mention or a reference, and no fence is too wide."""
    tokens = list(every(parsed(text)))
    html = [token.content for token in tokens if token.type.startswith("html")]
    assert not [each for each in html if not OURS.fullmatch(each)]
    kinds = {token.type for token in tokens}
    assert kinds.isdisjoint({"link_open", "image", "blockquote_open", "hr", "code_block"}), kinds
    inside = False
    for token in tokens:
        if token.type == "html_inline":
            inside = token.content == "<code>"
        if token.type == "text" and not inside:
            assert not re.search(r"@\w|#\d|GH-\d|https?:|www\.|evil|alert", token.content)
    fences = [token.content for token in tokens if token.type == "fence"]
    widths = [cell_len(line) for content in fences for line in content.split("\n")]
    assert max(widths, default=0) <= WIDTH
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e\u2028\u2029]", text)


def shown(text: str) -> str:
    """What is read of it, without marks: text and code, lines of a fence joined."""
    return " ".join(
        token.content
        for token in every(parsed(text))
        if token.type in ("text", "code_inline", "fence")
    )
