"""README and docs say what there is: tables and outputs are generated, and every link leads
somewhere."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest

from arc_tui.commands import cli
from tests.bench.fit_results import shipped_fit
from tests.docs import DOCS, README, ROOT, blocks, console, example, pages, site, tables
from tests.shared import MUST_BE_THERE
from tests.spoken import every_command
from tests.test_sentences import GIVEN_UP

PAGES = pages()
OLD_WORDS = re.compile(
    r"\b(tape|asks nobody|recorded road|point of no return|oracle|tryout|savable|belief left)\b",
    re.I,
)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def prose(text: str) -> str:
    """A page without code."""
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.S | re.M)


@pytest.mark.parametrize("page", PAGES, ids=name)
@pytest.mark.slow
def test_the_tables_are_what_the_code_says(page: Path) -> None:
    text = page.read_text()
    assert tables(text) == text, f"run `python -m tests.docs {name(page)}`"


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if "\n```console\n" in page.read_text()], ids=name
)
def test_the_commands_print_what_is_written(page: Path) -> None:
    text = page.read_text()
    assert all(path.exists() for path in console.files(text).values()) or not MUST_BE_THERE
    assert console.played(text) == text, f"run `python -m tests.docs {name(page)}`"


@pytest.mark.process
def test_the_kept_report_is_what_the_command_writes() -> None:
    kept, made = example.FILE.read_bytes(), example.make()
    assert example.digest(kept) == example.digest(made), "run `python -m tests.docs`"


def test_each_generated_block_stands_on_one_page() -> None:
    found = Counter(
        block
        for page in PAGES
        for block in blocks.BLOCKS
        if f"<!-- {block} -->" in page.read_text()
    )
    assert found == Counter(list(blocks.BLOCKS))


def test_every_command_has_its_section() -> None:
    text = (DOCS / "reference/commands.md").read_text()
    missing = [words for words in every_command() if f"arc {' '.join(words)}" not in text]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page.read_text())):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.is_file(), target
        if anchor:
            assert anchor in anchors(there.read_text()), target


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as the site and code hosts make them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M), re.M)
    plain = (re.sub(r"[^\w\s-]", "", title).strip().lower() for title in titles)
    return {re.sub(r"[\s]+", "-", title) for title in plain}


def typed(text: str) -> Iterator[list[str]]:
    """The words after `arc` of every command that a page shows: in blocks and in backquotes."""
    lines = re.findall(r"^\$ (arc .*)$", text, re.M)
    for block in re.findall(r"^```sh\n(.*?)^```$", text, re.S | re.M):
        lines += re.findall(r"^(?:.*[\s(|])?(arc [^#\n]+)", block, re.M)
    lines += re.findall(r"`(arc [^`\n]+)`", re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M))
    for line in lines:
        yield shlex.split(re.split(r" [|&;]|\)\"", line)[0], comments=True)[1:]


def command_of(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that these words call, and what it is given."""
    command: click.Command = cli
    while words and isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            break
        command, words = found, words[1:]
    return command, words


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=name)
def test_every_command_that_is_shown_exists_with_its_options(page: Path) -> None:
    for words in typed(page.read_text()):
        command, rest = command_of(words)
        assert command is not cli or not "".join(words[:1]).isalpha() or words[0].isupper(), words
        known = {each for param in command.params for each in (*param.opts, *param.secondary_opts)}
        given = rest[: rest.index("--")] if "--" in rest else rest
        options = {word.partition("=")[0] for word in given if re.match(r"--?[a-zA-Z]", word)}
        assert options - known - {"--db", "--help", "-h", "--version"} == set(), words


PYTHON = re.compile(r"^```python\n(.*?)^```$", re.S | re.M)


@pytest.mark.parametrize("page", [p for p in PAGES if PYTHON.search(p.read_text())], ids=name)
def test_python_that_is_shown_compiles(page: Path) -> None:
    for block in PYTHON.findall(page.read_text()):
        compile(block, name(page), "exec")


def test_every_source_page_has_a_command_that_is_run() -> None:
    """On a real file of the source, or where none is at hand, on the one that its tests write."""
    for page in (DOCS / "sources").glob("*.md"):
        if page.stem not in ("index", "record"):
            assert "\n```console\n$ arc import " in page.read_text(), page.name


def test_every_page_is_in_the_contents() -> None:
    listed = set(re.findall(r'"([\w/-]+\.md)"', (ROOT / ".zensical.toml").read_text()))
    assert listed == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}


def test_the_readme_is_short() -> None:
    assert len(README.read_bytes()) <= 8192


def test_the_readme_states_the_measured_accuracy() -> None:
    text = README.read_text()
    for each in shipped_fit().folds:
        if each.made_by == "people" and each.runs >= 50:
            share = f"{each.ours.over_all.exact.value:.0%}".replace("%", " %")
            assert share in text, each.name


@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "CHANGELOG.md"], ids=name)
def test_no_word_that_was_given_up(page: Path) -> None:
    text = page.read_text()
    assert [words for words in GIVEN_UP if words in prose(text)] == []
    assert OLD_WORDS.findall(prose(text)) == []


def test_the_map_names_only_what_there_is() -> None:
    """Each name in backquotes that looks like a module or a folder of the product exists."""
    for page in (ROOT / "CONTRIBUTING.md", ROOT / "docs/architecture.md"):
        for found in re.findall(r"`([a-z_/]+(?:/|\.py))`", page.read_text()):
            homes = ("", "replay", "replay/formats", "taxonomy", "arc_tui")
            assert any((ROOT / home / found).exists() for home in homes), (page.name, found)


@pytest.mark.process
@pytest.mark.skipif(
    find_spec("zensical") is None and not os.environ.get("CI"), reason="needs the extra `docs`"
)
def test_the_site_builds_strictly_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    built = site.build(tmp_path)
    assert (built / "index.html").is_file()
    assert (built / "pictures" / "session.svg").is_file()
    assert list(site.foreign(built)) == []
