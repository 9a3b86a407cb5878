"""`arc report`: a run in one HTML file, opened from disk in a real browser, and brought back."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import json
import os
import re
import stat
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from arc_tui import importing
from arc_tui.commands import cli
from arc_tui.features.report.html import render
from arc_tui.features.report.run import build_run_page, pack_run
from arc_tui.features.report.view import List, Page, Row, Table, Text
from arc_tui.features.trace.pages import why_page
from arc_tui.places import fixtures
from replay.errors import ArcError
from replay.redact.redactor import Redactor
from replay.store.read import content_digest
from replay.store.rows import trace_rows
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.free_case import put_bundled
from tests.arc_tui.report_case import HOSTILE, arc_says, opened, run_of, stored
from tests.browser import Page as Tab
from tests.browser import chromium, needs_chromium
from tests.shared import Imported

BROKEN = "shop-many-wishes-v5-0"
FIXED = "shop-many-wishes-v4-0"
TASKS = ("many-wishes", "stock", "refund")
PROMPT = fixtures() / "demo" / "prompts" / "v4.md"


def written(database: Path, folder: Path, run: str) -> Path:
    """The report of a run."""
    file = folder / "run.html"
    arc_says(database, "report", run, "-o", str(file))
    return file


async def shown(page: Tab) -> str:
    """What is shown of the step that is chosen."""
    await page.settle()
    return str(await page.value("document.querySelector('.detail').innerText"))


async def shows(page: Tab, words: str) -> None:
    """Until the step that is shown says it."""
    async with asyncio.timeout(30):
        while words not in await shown(page):
            await asyncio.sleep(0.02)


async def printable(page: Tab) -> None:
    async with asyncio.timeout(60):
        while await page.value("document.documentElement.dataset.printable") != "yes":
            await asyncio.sleep(0.02)


def nothing_was_asked(page: Tab, file: Path) -> None:
    """No request but for the file itself, and no error in the console."""
    assert {url.partition("#")[0] for url in page.asked} <= {"about:blank", file.as_uri()}
    assert page.refused == []


# --- in a browser


@needs_chromium
@pytest.mark.process
async def test_a_run_opens_at_its_break_and_is_walked_through_by_keys(
    bundled: Path, tmp_path: Path
) -> None:
    file = written(bundled, tmp_path, BROKEN)
    async with chromium() as browser:
        page = await browser.page("about:blank")
        await opened(page, file)
        first = await shown(page)
        assert first.startswith("Step 4\n")
        assert "amount 7500 not found in context" in first
        assert await page.value("location.hash") == ""
        await page.press("j")
        await shows(page, "Step 5")
        assert await page.value("location.hash") == "#step-5"
        await page.press("ArrowDown", "k")
        await shows(page, "Step 5")
        await page.press("n")
        await shows(page, "Step 6")
        await page.press("N", "N")
        await shows(page, "Step 2")
        await page.press("G")
        await shows(page, "Step 7")
        await page.press("Enter")
        assert await page.value("document.activeElement.className") == "detail"
        await page.press("Escape")
        assert await page.value("document.activeElement.getAttribute('role')") == "tree"
        await page.press("g")
        await shows(page, "Step 0")
        await page.press("/", *"receipt")
        await page.press("Enter")
        await shows(page, "Step 4")
        assert "match 1 of" in await page.value("document.querySelector('[role=status]').innerText")
        await page.press("?")
        assert await page.value("document.querySelector('dialog').open")
        await page.press("j")
        await shows(page, "Step 4")
        nothing_was_asked(page, file)


@needs_chromium
@pytest.mark.process
async def test_links_lead_to_steps(bundled: Path, tmp_path: Path) -> None:
    file = written(bundled, tmp_path, BROKEN)
    async with chromium() as browser:
        page = await browser.page("about:blank")
        await opened(page, file, "#step-6")
        await shows(page, "Step 6")
        await page.value("document.querySelector('.detail a[href=\"#step-0\"]').click()")
        await shows(page, "Step 0")
        assert "system prompt · 996 characters" in await shown(page)
        await page.value("location.hash = '#step-3'")
        await shows(page, "Step 3")
        await page.value("location.hash = '#step-99'")
        await page.settle()
        status = "document.querySelector('[role=status]').innerText"
        assert await page.value(status) == "No step 99 in this page."
        nothing_was_asked(page, file)


@needs_chromium
@pytest.mark.process
async def test_on_a_phone_a_link_shows_the_step_and_not_the_head(
    bundled: Path, tmp_path: Path
) -> None:
    file = written(bundled, tmp_path, BROKEN)
    top = "document.querySelector('.detail').getBoundingClientRect().top"
    async with chromium() as browser:
        page = await browser.page("about:blank")
        await page.say(
            "Emulation.setDeviceMetricsOverride",
            width=420, height=800, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        await opened(page, file, "#step-6")
        assert await page.value(top) < 640
        await opened(page, file)
        assert await page.value("window.scrollY") == 0


@needs_chromium
@pytest.mark.process
async def test_it_can_be_read_in_the_dark_in_the_light_and_by_all(
    bundled: Path, tmp_path: Path, axe: str
) -> None:
    file = written(bundled, tmp_path, BROKEN)
    papers = set()
    async with chromium() as browser:
        page = await browser.page("about:blank")
        for scheme in ("light", "dark"):
            await page.say(
                "Emulation.setEmulatedMedia",
                features=[{"name": "prefers-color-scheme", "value": scheme}],
            )
            await opened(page, file)
            await printable(page)
            papers.add(
                await page.value("getComputedStyle(document.documentElement).backgroundColor")
            )
            await page.value(axe)
            assert await violations(page) == []
            await page.press("?")
            assert await violations(page) == []
        assert len(papers) == 2
        nothing_was_asked(page, file)


async def violations(page: Tab) -> list[str]:
    found: list[dict[str, Any]] = json.loads(
        await page.value("axe.run().then(found => JSON.stringify(found.violations))")
    )
    return [f"{each['id']}: {each['nodes'][0]['html'][:200]}" for each in found]


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, fetched from the npm registry; it is no part of the project."""
    folder = tmp_path_factory.mktemp("axe")
    words = ["npm", "install", "--silent", "--no-audit", "--no-fund", "axe-core@4"]
    try:
        subprocess.run(words, cwd=folder, check=True, timeout=300, capture_output=True)
    except (OSError, subprocess.SubprocessError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"axe-core cannot be had: {error}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


@needs_chromium
@pytest.mark.process
async def test_on_paper_every_step_stands_in_full(bundled: Path, tmp_path: Path) -> None:
    file = written(bundled, tmp_path, BROKEN)
    async with chromium() as browser:
        page = await browser.page("about:blank")
        await opened(page, file)
        await printable(page)
        await page.say("Emulation.setEmulatedMedia", media="print")
        said = await page.value("document.body.innerText")
        for step in range(8):
            assert f"Step {step}" in said
        assert "R-1039" in said
        assert "Next finding" not in said
        made = await page.say("Page.printToPDF")
        assert base64.b64decode(made["data"]).count(b"/Type /Page\n") >= 3
        nothing_was_asked(page, file)


@needs_chromium
@pytest.mark.process
async def test_without_javascript_it_holds_the_brief(bundled: Path, tmp_path: Path) -> None:
    file = written(bundled, tmp_path, BROKEN)
    async with chromium() as browser:
        page = await browser.page("about:blank")
        await page.say("Emulation.setScriptExecutionDisabled", value=True)
        await page.say("Page.navigate", url=file.as_uri())
        await asyncio.sleep(0.5)
        tree = await page.say("DOM.getDocument", depth=-1)
        found = await page.say("DOM.querySelector", nodeId=tree["root"]["nodeId"], selector="pre")
        told = await page.say("DOM.getOuterHTML", nodeId=found["nodeId"])
        assert "amount 7500 not found in context" in told["outerHTML"]
        nothing_was_asked(page, file)


@needs_chromium
@pytest.mark.process
async def test_long_texts_stand_where_they_were_said(tmp_path: Path) -> None:
    words = f"tabs\tand\r\nbreaks {'and more words ' * 9}"
    database = stored(tmp_path, run_of(4, words=words))
    file = written(database, tmp_path, "long")
    async with chromium() as browser:
        page = await browser.page("about:blank")
        for step in range(4):
            await opened(page, file, f"#step-{step}")
            told = await page.value("document.querySelector('.response').innerText")
            assert f"I look at place {step}. tabs    and\nbreaks and more words" in told
            for name in ("10", "9", "\uffee", "\U0001d4b3"):
                assert f'"{name}": "{name} {step} ....' in told
            result = await page.value("document.querySelector('.results').innerText")
            assert f'"shelf": "row {step * 7919}"' in result
        nothing_was_asked(page, file)


@needs_chromium
@pytest.mark.process
async def test_a_gate_shows_its_tasks(tmp_path: Path, axe: str) -> None:
    database, file = tmp_path / "gate.db", tmp_path / "gate.html"
    put_bundled(database, *(f"shop-{task}-{v}-0" for v in ("v4", "v5") for task in TASKS))
    words = ("--baseline", "variant=v4", "--candidate", "variant=v5")
    said = arc_says(database, "gate", *words, code=0).splitlines()
    arc_says(database, "report", "--gate", *words, "-o", str(file))
    async with chromium() as browser:
        page = await browser.page("about:blank")
        await page.say("Page.navigate", url=f"{file.as_uri()}#step-1")
        async with asyncio.timeout(60):
            while await page.value("document.documentElement.dataset.ready") != "yes":
                await asyncio.sleep(0.02)
        told = await page.value("document.body.innerText")
        assert said[0] in told
        assert all(task in told for task in TASKS)
        await page.press("j", "?", "n")
        await page.value(axe)
        assert await violations(page) == []
        nothing_was_asked(page, file)
    database, report = brought_back(file, tmp_path)
    assert "holds no run" in str(report.error)


@needs_chromium
@pytest.mark.process
async def test_hostile_text_stays_text(tmp_path: Path) -> None:
    long = f"{HOSTILE} " * (1_000_000 // len(HOSTILE))
    database = stored(tmp_path, run_of(3, words=HOSTILE, result=long, name=f"task {HOSTILE}"))
    file = tmp_path / "run.html"
    with open_ledger(database) as store:
        (row,) = trace_rows(store)
    arc_says(database, "report", row.trace, "-o", str(file))
    assert_only_our_script(file.read_text())
    async with chromium() as browser:
        page = await browser.page("about:blank")
        await opened(page, file)
        await printable(page)
        for _ in range(3):
            await page.press("j")
            await page.settle()
        detail = await shown(page)
        assert "</script><script>document.title = 'taken'" in detail
        assert "more characters" in detail
        assert "\u202e" not in await page.value("document.body.innerText")
        assert await page.value("document.title") != "taken"
        assert await page.value("document.querySelectorAll('img, iframe, [onerror]').length") == 0
        await page.value("document.querySelector('.detail button').click()")
        assert len(await shown(page)) > 900_000
        nothing_was_asked(page, file)


@needs_chromium
@pytest.mark.process
async def test_a_run_without_a_step_is_a_page_too(tmp_path: Path) -> None:
    database = stored(tmp_path, run_of(0))
    file = written(database, tmp_path, "long")
    async with chromium() as browser:
        page = await browser.page("about:blank")
        await page.say("Page.navigate", url=f"{file.as_uri()}#step-0")
        await printable(page)
        await page.press("j", "G", "n", "?", "Escape", "Enter")
        await page.settle()
        assert "No break candidates." in await page.value("document.body.innerText")
        nothing_was_asked(page, file)


@needs_chromium
@pytest.mark.process
@pytest.mark.slow
async def test_ten_thousand_steps_are_there_within_three_seconds(tmp_path: Path) -> None:
    database = stored(tmp_path, run_of(10_000))
    file = written(database, tmp_path, "long")
    async with chromium() as browser:
        page = await browser.page("about:blank")
        taken = await opened(page, file)
        assert taken < 3, taken
        assert await page.value("document.querySelectorAll('[role=treeitem]').length") < 100
        await page.press("G")
        await shows(page, "Step 9999")
        await page.press("/", *"row 39610")
        await page.press("Enter")
        await shows(page, "Step 5002")
        await printable(page)
        await page.say("Emulation.setEmulatedMedia", media="print")
        assert "of 10\u202f000 steps; the file has all" in await page.value(
            "document.body.innerText"
        )
        nothing_was_asked(page, file)


@needs_chromium
@pytest.mark.process
async def test_two_runs_stand_side_by_side(tmp_path: Path, axe: str) -> None:
    file, database = tmp_path / "pair.html", tmp_path / "pair.db"
    put_bundled(database, BROKEN, FIXED)
    arc_says(database, "report", "--compare", BROKEN, FIXED, "-o", str(file))
    async with chromium() as browser:
        page = await browser.page("about:blank")
        await opened(page, file)
        summary = await page.value("document.querySelector('.summary').innerText")
        assert "A and B diverge at step 4 of B" in summary
        assert "system prompts differ" in summary
        await shows(page, "Step 4")
        await page.press("n")
        await shows(page, "Step 4 / 5")
        both = await shown(page)
        assert "A · many-wishes / 0 · step 4" in both
        assert "B · many-wishes / 0 · step 5" in both
        assert await page.value("location.hash") == "#a-step-4"
        await page.value("location.hash = '#b-step-9'")
        await shows(page, "step 9")
        await printable(page)
        await page.value(axe)
        assert await violations(page) == []
        nothing_was_asked(page, file)


@needs_chromium
@pytest.mark.process
async def test_a_replay_shows_each_step_in_both_arms(
    replayed: Path, tmp_path: Path, axe: str
) -> None:
    file = tmp_path / "replay.html"
    arc_says(replayed, "report", BROKEN, "--replay", "last", "-o", str(file))
    async with chromium() as browser:
        page = await browser.page("about:blank")
        await opened(page, file)
        summary = await page.value("document.querySelector('.summary').innerText")
        assert "The edit first diverges at step 4: refund_order → get_order" in summary
        told = await shown(page)
        assert told.startswith("Step 4\n")
        assert "✓ fixed" in told
        assert "significant, p = " in told
        assert "amount 7500 not found in context" in told, "what is said of the recorded step"
        await printable(page)
        await page.value(axe)
        assert await violations(page) == []
        nothing_was_asked(page, file)


# --- the file


def assert_only_our_script(html: str) -> None:
    """One script runs, the one whose hash the policy names, and one style holds."""
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    rules = dict(part.strip().split(" ", 1) for part in policy[1].split(";"))
    assert rules["default-src"] == "'none'"
    assert set(rules) == {"default-src", "script-src", "style-src", "base-uri", "form-action"}
    for tag in ("script", "style"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"
    script = html[html.rindex("<script>") :]
    assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(|fetch\(", script)


def test_a_failed_run_of_forty_steps_is_below_200_kb(tmp_path: Path) -> None:
    database = stored(tmp_path, run_of(40))
    file = written(database, tmp_path, "long")
    assert file.stat().st_size < 200_000
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert_only_our_script(file.read_text())


@given(st.text())
def test_no_text_of_a_run_becomes_markup(text: str) -> None:
    page = Page(
        kind="run",
        title=text,
        outcome=None,
        facts=(text,),
        summary=(Text(text=text, label=text, aside=text),),
        tables=(Table(title=text, columns=(text,), rows=((text,),)),),
        list=List(kind="tree", title=text, columns=(text,), rows=(Row(cells=(text, text)),)),
        runs=(),
        brief=text,
    )
    html = render(page, Redactor(b"key")).decode()
    assert_only_our_script(html)
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert tags.found == TAGS


class Tags(HTMLParser):
    """The elements of a page, as a parser of HTML sees them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)


TAGS = [
    *("html", "head", "meta", "meta", "meta", "meta", "meta", "meta", "title", "style", "body"),
    *("noscript", "main", "p", "pre", "header", "main", "script", "script"),
]


def test_real_runs_come_back_with_their_digests_and_are_small(others: Imported) -> None:
    sizes = []
    with open_ledger(others.path) as store:
        rows = trace_rows(store)
        for row in rows:
            held, _ = pack_run(store, row.trace)
            assert (held.digest, held.masked) == (held.recorded, ()), row
            if 30 <= row.steps <= 50:
                page = build_run_page(store, row.trace, why_page)
                sizes.append(len(render(page, store.redactor)))
    assert rows
    assert max(sizes, default=0) < 200_000


class Counting(Redactor):
    """Counts how often a text is looked at for secrets."""

    def __init__(self, text: str) -> None:
        super().__init__(b"key")
        self.looks, self._text = 0, text

    def clear(self, encoded: bytes) -> bool:
        self.looks += encoded.count(self._text.encode())
        return super().clear(encoded)


@pytest.mark.parametrize(("words", "looks"), [(60, 1), (1, 2)])
def test_a_text_is_looked_at_once_in_the_recording_and_once_where_it_is_shown_otherwise(
    tmp_path: Path, words: int, looks: int
) -> None:
    told = "nothing stands here " * words + "in row 17"
    with open_ledger(stored(tmp_path, run_of(1, result=told))) as store:
        store.redactor = counting = Counting(told)
        page = render(build_run_page(store, "long", why_page), counting)
    assert len(page) > 10_000
    assert counting.looks == looks


def test_the_same_run_gives_the_same_bytes(bundled: Path, tmp_path: Path) -> None:
    first = written(bundled, tmp_path, BROKEN).read_bytes()
    assert written(bundled, tmp_path, BROKEN).read_bytes() == first


def digest_of(database: Path) -> dict[str, str]:
    with open_ledger(database) as store:
        return {row.trace: content_digest(store, row.trace) for row in trace_rows(store)}


def brought_back(file: Path, folder: Path) -> tuple[Path, importing.FileReport]:
    database = folder / "colleague.db"
    with open_ledger(database) as store:
        *_, made = importing.import_paths(store, [file])
    assert isinstance(made, importing.ImportReport)
    (report,) = made.files
    return database, report


def test_it_brings_the_run_to_a_colleague_with_the_same_digest(
    bundled: Path, tmp_path: Path
) -> None:
    file = tmp_path / "run.html"
    made = json.loads(arc_says(bundled, "report", BROKEN, "-o", str(file), "--json"))
    assert made["bytes"] == file.stat().st_size
    (run,) = made["runs"]
    assert run["masked"] == []
    assert run["digest"] == run["recorded"]
    database, report = brought_back(file, tmp_path)
    assert report.error is None
    assert report.problems == ()
    assert digest_of(database) == {run["trace"]: run["digest"]}
    assert "amount 7500 not found" in arc_says(database, "diagnose", run["trace"])


SECRET = "blue-harbour-29"


def test_what_a_new_rule_masks_is_named_there_and_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = stored(tmp_path, run_of(3, result=f"the word is {SECRET}"))
    settings = tmp_path / "settings"
    settings.mkdir()
    (settings / "config.toml").write_text(f'[redact.patterns]\nharbour = "{SECRET}"\n')
    monkeypatch.setenv("ARC_CONFIG_DIR", str(settings))
    file = tmp_path / "run.html"
    said = arc_says(database, "report", "long", "-o", str(file))
    made = json.loads(arc_says(database, "report", "long", "-o", str(file), "--json"))
    (run,) = made["runs"]
    assert run["digest"] != run["recorded"]
    assert set(run["masked"]) == {"t0", "m1", "t1", "m2", "t2"}
    assert "masked in spans" in said
    packed = re.findall(r'id="arc-steps[^>]*>([^<]*)<', file.read_text())
    assert packed
    assert all(SECRET not in gzip.decompress(base64.b64decode(each)).decode() for each in packed)
    monkeypatch.delenv("ARC_CONFIG_DIR")
    colleague, report = brought_back(file, tmp_path)
    assert digest_of(colleague) == {run["trace"]: run["digest"]}
    (problem,) = report.problems
    assert "t0" in problem.why
    assert SECRET not in arc_says(colleague, "show", "long", "1")


# --- replays


@pytest.fixture
def replayed(bundled: Path, tmp_path: Path) -> Path:
    """A database with a locked replay, and its bundle beside it."""
    database = tmp_path / "replayed.db"
    database.write_bytes(bundled.read_bytes())
    words = ("replay", BROKEN, "--system", str(PROMPT), "--bundle", str(tmp_path / "case.zip"))
    arc_says(database, *words)
    return database


def digest_in(said: str) -> str:
    found = re.search(r"digest (sha256:[0-9a-f]+)", said)
    assert found is not None
    return found[1]


def page_of(file: Path) -> dict[str, Any]:
    """What stands in the page beside the documents of steps."""
    found = re.search(r'id="arc-page">(.*?)</script>', file.read_text())
    assert found is not None
    page: dict[str, Any] = json.loads(found[1])
    return page


@pytest.mark.slow
def test_a_replay_is_named_by_its_digest_or_lies_in_a_bundle(
    replayed: Path, tmp_path: Path
) -> None:
    said = arc_says(replayed, "replay", BROKEN, "--system", str(PROMPT))
    digest = digest_in(said)
    by_digest, by_bundle = tmp_path / "a.html", tmp_path / "b.html"
    arc_says(replayed, "report", "--replay", digest[:20], "-o", str(by_digest))
    none = tmp_path / "none.db"
    arc_says(none, "report", "--replay", str(tmp_path / "case.zip"), "-o", str(by_bundle))
    assert not none.exists(), "a bundle needs no database"
    for file in (by_digest, by_bundle):
        page = page_of(file)
        texts = [each["text"] for each in page["summary"]]
        assert said.splitlines()[0] in texts
        assert f"digest {digest}" in texts
    assert by_digest.read_bytes() == by_bundle.read_bytes()


@pytest.mark.slow
def test_several_arms_stand_beside_one_control(replayed: Path, tmp_path: Path) -> None:
    other = PROMPT.with_name("v3.md")
    bundle = tmp_path / "arms.zip"
    words = ("replay", BROKEN, "--arm", str(PROMPT), "--arm", str(other), "-k", "2")
    said = arc_says(replayed, *words, "--bundle", str(bundle))
    file = tmp_path / "arms.html"
    arc_says(replayed, "report", "--replay", str(bundle), "-o", str(file))
    page = page_of(file)
    assert page["list"]["columns"] == ["step", "recorded", "control", "v4 | v3", "effect"]
    texts = [each["text"] for each in page["summary"]]
    assert all(line in texts for line in said.splitlines()[:3])


@pytest.mark.slow
def test_a_free_replay_shows_where_it_went(replayed: Path, tmp_path: Path) -> None:
    words = ("replay", BROKEN, "--free", "--system", str(PROMPT))
    bundle = tmp_path / "free.zip"
    said = arc_says(replayed, *words, "--bundle", str(bundle))
    file, other = tmp_path / "free.html", tmp_path / "other.html"
    arc_says(replayed, "report", BROKEN, "--replay", "last", "-o", str(file))
    arc_says(replayed, "report", "--replay", str(bundle), "-o", str(other))
    page = page_of(file)
    assert page["list"]["rows"][-1]["cells"][4] == "≠ diverged"
    assert page["summary"][1]["text"] in said
    assert "Outcome not evaluated." in [each["text"] for each in page["summary"]]
    assert file.read_bytes() == other.read_bytes()


@pytest.mark.slow
def test_a_post_mortem_tells_what_was_tried(replayed: Path, tmp_path: Path) -> None:
    arc_says(replayed, "replay", BROKEN, "--free", "--system", str(PROMPT))
    said = arc_says(replayed, "report", "--postmortem", BROKEN)
    assert said.startswith("# Post-mortem: `many-wishes / 0`\n")
    assert said.index("**Free replay**") < said.index("**Locked replay**"), "the latest first"
    assert "The edit first diverges at step 4: refund_order → get_order" in " ".join(said.split())
    assert "Outcome not evaluated." in said
    file = tmp_path / "postmortem.md"
    assert arc_says(replayed, "report", "--postmortem", BROKEN, "-o", str(file)).startswith("wrote")
    assert file.read_text() == said
    assert "may have written in it" in refused(replayed, "--postmortem", BROKEN, "-o", str(file))
    made = json.loads(arc_says(replayed, "report", "--postmortem", BROKEN, "--json"))
    assert made == {"markdown": said}


# --- bad input


def refused(database: Path, *words: str) -> str:
    """What is said instead of a report."""
    made = CliRunner().invoke(cli, ["--db", str(database), "report", *words])
    if isinstance(made.exception, ArcError):
        return f"{made.exception.message} {made.exception.hint}"
    assert made.exit_code == 2, made.output
    return made.output


def test_bad_input_is_one_sentence(bundled: Path, tmp_path: Path) -> None:
    other = tmp_path / "notes.html"
    other.write_text("<!doctype html> mine")
    assert "nobody" in refused(bundled, "nobody")
    assert "name one run" in refused(bundled)
    assert "names its run itself" in refused(bundled, BROKEN, "--replay", "sha256:00")
    assert "needs a run" in refused(bundled, "--replay", "last")
    assert "no saved replay of" in refused(bundled, BROKEN, "--replay", "last")
    assert "no saved replay" in refused(bundled, "--replay", "sha256:00")
    assert "not a complete zip file" in refused(bundled, "--replay", str(other))
    assert "takes two runs" in refused(bundled, "--compare", BROKEN)
    assert "--min-drop needs --gate" in refused(bundled, BROKEN, "--min-drop", ".1")
    assert "takes queries" in refused(bundled, BROKEN, "--gate")
    assert "needs --baseline" in refused(bundled, "--gate", "--baseline", "variant=v4")
    assert "no run matches" in refused(
        bundled, "--gate", "--baseline", "variant=v1", "--candidate", "variant=v5"
    )
    assert "of one kind" in refused(bundled, "--compare", BROKEN, FIXED, "--replay", "last")
    assert "exists, and is no report" in refused(bundled, BROKEN, "-o", str(other))
    assert other.read_text() == "<!doctype html> mine"
    gone = tmp_path / "gone" / "run.html"
    assert "cannot be written" in refused(bundled, BROKEN, "-o", str(gone))
    assert "is a directory" in refused(bundled, BROKEN, "-o", str(tmp_path))
    assert "--json and -o -" in refused(bundled, BROKEN, "-o", "-", "--json")


def test_it_can_go_to_a_pipe(bundled: Path, tmp_path: Path) -> None:
    piped = arc_says(bundled, "report", BROKEN, "-o", "-")
    assert piped.encode() == written(bundled, tmp_path, BROKEN).read_bytes()
