"""What stands in a folder before anything was imported: it is found, listed and opened."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from arc_tui.features.runs.offers import Offer, look, offer_words
from arc_tui.open import open_
from arc_tui.places import fixtures
from replay.errors import ArcError
from tests.replay import test_opencode as opencode_case
from tests.replay.recorded import RECORDED

NOON_NS = 1_790_000_000 * 10**9
SECOND = 10**9


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a project, with nothing in it; the agents have their homes beside it."""
    project = tmp_path / "my.project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    monkeypatch.setenv("GEMINI_CLI_HOME", str(tmp_path / "gemini"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("QWEN_HOME", "COPILOT_HOME", "CLINE_DATA_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return project


def put(path: Path, *records: Any, age_s: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return aged(path, age_s)


def aged(path: Path, age_s: int) -> Path:
    at_ns = NOON_NS - age_s * SECOND
    os.utime(path, ns=(at_ns, at_ns))
    return path


def claude(folder: Path, asked: str, *, cwd: Path | None = None, age_s: int = 0) -> Path:
    """A session of Claude Code, where it keeps those of the folder."""
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in str(folder))
    name = name if len(name) <= 200 else f"{name[:200]}-x1y2z3"
    session = "".join(c if c.isalnum() else "-" for c in asked)
    line = {"sessionId": session, "timestamp": "2026-01-02T10:00:00Z", "cwd": str(cwd or folder)}
    return put(
        Path(os.environ["CLAUDE_CONFIG_DIR"]) / "projects" / name / f"{session}.jsonl",
        line | {"type": "user", "uuid": "a", "parentUuid": None,
                "message": {"role": "user", "content": asked}},
        line | {"type": "assistant", "uuid": "b", "parentUuid": "a",
                "message": {"role": "assistant", "id": "m", "model": "claude-x",
                            "content": [{"type": "text", "text": "Done."}]}},
        age_s=age_s,
    )  # fmt: skip


def codex(folder: Path, asked: str, *, age_s: int = 0) -> Path:
    said = [("user", "input_text", asked), ("assistant", "output_text", "Done.")]
    records = [{"type": "session_meta", "payload": {"id": asked, "cwd": str(folder)}}] + [
        {"type": "response_item", "payload": {"type": "message", "role": role,
                                             "content": [{"type": kind, "text": text}]}}
        for role, kind, text in said
    ]  # fmt: skip
    day = Path(os.environ["CODEX_HOME"]) / "sessions" / "2026" / "01" / "02"
    return put(
        day / f"rollout-2026-01-02T10-00-00-{asked.replace(' ', '-')}.jsonl",
        *({"timestamp": "2026-01-02T10:00:00Z"} | record for record in records),
        age_s=age_s,
    )


def gemini_cli(folder: Path, asked: str, *, age_s: int = 0) -> Path:
    """A session of Gemini CLI, which names its folder by a digest alone."""
    project = sha256(str(folder).encode()).hexdigest()
    chats = Path(os.environ["GEMINI_CLI_HOME"]) / ".gemini" / "tmp" / project[:8] / "chats"
    about = {"sessionId": asked, "projectHash": project, "startTime": "2026-01-02T10:00:00Z"}
    said = [
        {"id": "1", "timestamp": "2026-01-02T10:00:00Z", "type": "user", "content": asked},
        {"id": "2", "timestamp": "2026-01-02T10:00:01Z", "type": "gemini", "content": "Done."},
    ]
    return put(chats / f"session-{asked.replace(' ', '-')}.json", about | {"messages": said},
               age_s=age_s)  # fmt: skip


def opencode(folder: Path, asked: str, *, age_s: int = 0) -> Path:
    """A session in opencode's storage folder, as its earlier releases have it."""
    name = f"ses_{asked.replace(' ', '')}"
    about = opencode_case.session(name, directory=str(folder), title=asked)
    messages = [opencode_case.user("msg_1", 1, opencode_case.words("msg_1", 1, asked))]
    home = Path(os.environ["XDG_DATA_HOME"]) / "opencode" / "storage"
    return aged(opencode_case.folder(home, about, messages), age_s)


def recorded(folder: Path, name: str, way: str, *, age_s: int) -> Path:
    """A session that an agent recorded itself, as if it had begun in the folder."""
    path = Path(way)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((RECORDED / name).read_text().replace("/home/user/shop", str(folder)))
    return aged(path, age_s)


def log(path: Path, *, age_s: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes((fixtures() / "traces" / "shop-cancel-v2-0.jsonl").read_bytes())
    return aged(path, age_s)


def found(folder: Path) -> list[str]:
    return [Path(offer.path).name for offer in look(folder)]


def test_sessions_of_both_agents_and_the_folders_own_files_are_found_newest_first(
    folder: Path,
) -> None:
    paths = [
        codex(folder, "mend the tests", age_s=10),
        log(folder / "logs" / "night.jsonl", age_s=20),
        claude(folder, "write the README", age_s=30),
        log(folder / "own.jsonl", age_s=40),
    ]
    offers = list(look(folder))
    assert [Path(offer.path) for offer in offers] == paths
    assert [offer.format for offer in offers] == ["codex", "arc", "claude-code", "arc"]
    assert [offer.title for offer in offers][:3:2] == ["mend the tests", "write the README"]


def test_a_session_of_another_folder_is_none_of_this_one(folder: Path) -> None:
    other = folder.with_name("my-project")  # Claude Code gives both the same name
    claude(folder, "here")
    claude(folder, "elsewhere", cwd=other)
    codex(other, "elsewhere too")
    assert found(folder) == ["here.jsonl"]


def test_sessions_of_gemini_cli_and_opencode_are_found_where_they_say_that_they_are_of_it(
    folder: Path,
) -> None:
    other = folder.with_name("other")
    paths = [gemini_cli(folder, "mend it"), opencode(folder, "sing", age_s=10)]
    gemini_cli(other, "elsewhere")
    opencode(other, "elsewhere too")
    offers = list(look(folder))
    assert [Path(offer.path) for offer in offers] == paths
    assert [offer.format for offer in offers] == ["gemini-cli", "opencode"]
    assert [offer.title for offer in offers] == ["mend it", "sing"]


def test_sessions_of_agents_that_keep_them_in_one_folder_are_found_by_where_they_began(
    folder: Path,
) -> None:
    qwen, copilot, kept = (
        os.environ[name] for name in ("QWEN_HOME", "COPILOT_HOME", "CLINE_DATA_DIR")
    )
    cline = "cline/1795489038937_l4bcm/1795489038937_l4bcm"
    ways = {
        "qwen-code.jsonl": f"{qwen}/projects/-w/chats/a.jsonl",
        "copilot-cli.jsonl": f"{copilot}/session-state/b/events.jsonl",
        f"{cline}.json": f"{kept}/sessions/c/c.json",
        f"{cline}.messages.json": f"{kept}/sessions/c/c.messages.json",
    }
    for age_s, (name, way) in enumerate(ways.items()):
        recorded(folder, name, way, age_s=age_s)
    recorded(
        folder.with_name("x"), "copilot-cli.jsonl", f"{copilot}/session-state/d.jsonl", age_s=9
    )
    offers = list(look(folder))
    assert [offer.format for offer in offers] == ["gemini-cli", "copilot-cli", "cline"]
    assert {offer.title for offer in offers} == {"Refund my orders"}


def test_a_database_of_opencode_is_offered_where_a_session_in_it_is_of_the_folder(
    folder: Path,
) -> None:
    path = Path(os.environ["XDG_DATA_HOME"]) / "opencode" / "opencode.db"
    path.parent.mkdir(parents=True)
    opencode_case.database(path, (opencode_case.session(), opencode_case.TALK))
    assert found(folder) == []
    assert found(Path("/w")) == ["opencode.db"]  # the folder that every row of it names
    assert [offer.title for offer in look(Path("/w"))] == [None]


def test_what_no_importer_can_read_is_no_offer(folder: Path) -> None:
    put(folder / "package.json", {"name": "x"})
    put(folder / "half.jsonl", {"format": "arc/1"})
    (folder / "broken.jsonl").write_bytes(b'{"sessionId": "x", "type": "user"')
    (folder / "odd.eval").write_bytes(b"PK\x03\x04 and no archive")
    os.mkfifo(folder / "pipe.jsonl")
    (folder / ".hidden").mkdir()
    log(folder / ".hidden" / "a.jsonl")
    assert found(folder) == []


def test_the_parts_of_a_session_are_no_offers_of_their_own(folder: Path) -> None:
    main = claude(folder, "with help")
    side = main.with_name("agent-7.jsonl")
    record = json.loads(main.read_text().splitlines()[0]) | {"isSidechain": True, "agentId": "7"}
    put(side, record)
    assert found(folder) == [main.name]
    main.unlink()
    assert found(folder) == [side.name]


def test_a_name_too_long_for_claude_code_is_still_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    deep = tmp_path.joinpath(*["a" * 60] * 4)
    path = claude(deep, "deep")
    assert path.parent.name.endswith("a-x1y2z3")
    assert found(deep) == ["deep.jsonl"]


def test_an_offer_says_what_it_is_about_and_where_it_lies() -> None:
    offer = Offer(
        path="/w/logs/a.eval", format="inspect", title=None, changed_ns=0, bytes=1_234_567
    )
    words = offer_words(offer, Path("/w"), 7_300 * SECOND)
    assert (words.title, words.age, words.size) == ("a.eval", "2 hours ago", "1.2 MB")
    assert words.file == "logs/a.eval"
    assert offer_words(offer, Path("/v"), 59 * SECOND).file == "a.eval"
    assert offer_words(offer, Path("/v"), 0).age == "just now"


def run(*words: str, db: Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(open_, ["--latest", "--db", str(db), *words], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return int(done.return_value or 0), done.stdout, done.stderr


def test_the_latest_in_a_pipe_imports_the_newest_and_prints_its_brief(
    folder: Path, tmp_path: Path
) -> None:
    claude(folder, "an old question", age_s=60)
    claude(folder, "the newest question")
    code, out, err = run(db=tmp_path / "arc.db")
    assert code == 0
    assert "the newest question" in out
    assert "the-newest-question.jsonl" in err

    code, out, _ = run("--json", db=tmp_path / "arc.db")
    told = json.loads(out)
    assert code == 0
    assert told["path"].endswith("the-newest-question.jsonl")
    assert len(told["traces"]) == 1
    assert "the newest question" in told["brief"]


def test_the_latest_lists_what_is_here_and_imports_nothing(folder: Path, tmp_path: Path) -> None:
    claude(folder, "a question")
    log(folder / "logs" / "run.jsonl", age_s=5)
    code, out, _ = run("--list", db=tmp_path / "arc.db")
    assert code == 0
    assert [line.split()[-1] for line in out.splitlines()] == [
        "file",
        "a-question.jsonl",
        "logs/run.jsonl",
    ]
    _, out, _ = run("--list", "--json", db=tmp_path / "arc.db")
    assert [each["format"] for each in json.loads(out)] == ["claude-code", "arc"]
    assert not (tmp_path / "arc.db").exists()


def test_the_latest_where_nothing_is_says_what_to_do(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ArcError, match="in this folder") as refused:
        run(db=tmp_path / "arc.db")
    assert "arc import PATH" in refused.value.hint
    assert run("--list", "--json", db=tmp_path / "arc.db")[:2] == (0, "[]\n")
