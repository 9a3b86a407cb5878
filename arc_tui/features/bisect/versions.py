"""Which versions are to be held against each other? Files in their order, or revisions of one.

A version is a system prompt, or where a file is TOML, an edit. Revisions come from git, which is
only read (`log` and `cat-file`): neither the work tree nor the index is touched. The repository
may be somebody else's: no program that its configuration names is run, and nothing is fetched.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from arc_tui.ui import format
from replay import messages, written
from replay.edit.changes import Edit, SetSystem
from replay.edit.files import from_toml
from replay.errors import ArcError
from replay.trace import Trace


class Source(Struct, frozen=True, kw_only=True):
    """A version as its author knows it: a name, a word beside it, and its text."""

    name: str
    text: str
    note: str = ""
    toml: bool = False

    def edit(self, trace: Trace, step: int) -> Edit | None:
        """What it changes, None where that is the prompt the step was recorded with.

        Raises BadEdit where the text is no edit.
        """
        if self.toml:
            return from_toml(self.text, self.name, self.name)
        if self.text.rstrip("\n") == recorded_prompt(trace, step).rstrip("\n"):
            return None
        return Edit(name=self.name, changes=(SetSystem(self.text),))


class BadVersions(ArcError):
    """Versions that cannot be had, or cannot be held against each other."""


def recorded_prompt(trace: Trace, step: int) -> str:
    """The system prompt a step was recorded with, "" for none."""
    system = trace.steps[step].ask.request.system
    return "" if system is None else messages.text(system)


# --- files


def of_files(files: Sequence[Path]) -> list[Source]:
    """The versions in some files. Raises BadEdit naming the file that cannot be read."""
    stems = [file.stem for file in files]
    alone = len(set(stems)) == len(stems)
    return [
        Source(
            name=written.called(file.stem if alone else str(file)),
            text=written.from_file(file),
            toml=file.suffix == ".toml",
        )
        for file in files
    ]


# --- those that say the same


class Merged(Struct, frozen=True, kw_only=True):
    """The versions that differ, in their order; `notices` tell which others say the same."""

    sources: tuple[Source, ...]
    notices: tuple[str, ...]


def merged(sources: Iterable[Source]) -> Merged:
    """Each text once, at its first place: two that say the same get the same answers.

    Raises BadVersions where fewer than two are left.
    """
    first: dict[str, Source] = {}
    notices = []
    for each in sources:
        known = first.setdefault(each.text.rstrip("\n"), each)
        if known is not each:
            notices.append(f"{each.name} left out: same text as {known.name}")
    if len(first) < 2:
        why = "all versions are the same" if notices else "a bisection needs two or more versions"
        raise BadVersions(why, "name the files in order, the oldest first")
    return Merged(sources=tuple(first.values()), notices=tuple(notices))


# --- revisions


def of_git(file: Path, span: str) -> list[Source]:
    """The file at A, and at each revision of `A..B` that changes it, the oldest first.

    Renames are followed. A version is named by its revision, the subject stands beside it. Raises
    BadVersions with what git says.
    """
    before, dots, after = span.partition("..")
    if not dots or after.startswith(".") or span.startswith("-"):
        raise BadVersions(f"'{span}' is not a range of revisions", "Try: --git PATH v1.0..HEAD")
    folder = file.parent
    changes = _changes(folder, file.name, f"{before or 'HEAD'}..{after or 'HEAD'}")
    if not changes:
        raise BadVersions(f"no revision of {span} changes {file}", "Try: git log -- FILE")
    found = []
    old_name = changes[0].path_before
    if old_name is not None:
        start = before or "HEAD"
        last = _changes(folder, file.name, start, path=old_name)
        named = last[0] if last else Change(revision=start, short=start)
        found.append(_source(folder, start, old_name, named))
    there = ((each, each.path) for each in changes if each.path is not None)
    return [*found, *(_source(folder, each.revision, path, each) for each, path in there)]


class Change(Struct, frozen=True, kw_only=True):
    """A revision that changes the file. `path` is its name from then on, None where it is gone;
    `path_before` its name until then, None where there was none. From the top of the repository."""

    revision: str
    short: str
    subject: str = ""
    path: str | None = None
    path_before: str | None = None


def _source(folder: Path, revision: str, path: str, named: Change) -> Source:
    raw = _git(folder, "cat-file", "blob", f"{revision}:{path}")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise BadVersions(f"{path} at {named.short} is not text: {error}") from error
    return Source(
        name=named.short, note=named.subject, text=text, toml=Path(path).suffix == ".toml"
    )


_HASH, _FIELD = (f"{mark}{secrets.token_hex(8)}" for mark in "\x1e\x1f")
"""What separates the revisions that git lists, and their parts: no subject can hold it."""

_SAFE = (
    "--no-pager",
    "--no-optional-locks",
    "--no-replace-objects",
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.alternateRefsCommand=false"),
    *("-c", "core.sshCommand=false"),
    *("-c", "credential.helper="),
    *("-c", "gpg.program=false"),
    *("-c", "log.showSignature=false"),
    *("-c", "log.mailmap=false"),
    *("-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false"),
)
"""What git is told before anything else, against the configuration of the repository."""

_ENVIRONMENT = {
    "GIT_NO_LAZY_FETCH": "1",  # known from 2.45 on: an object that is missing is an error
    "GIT_ALLOW_PROTOCOL": "none",  # for every git: no transport, no remote helper
    "GIT_TERMINAL_PROMPT": "0",
}

_USERS = ("GIT_CONFIG_", "GIT_EXEC_PATH")

_GIT_S = 60.0
"""After so many seconds git is stopped: a configuration may include what never ends."""


def _changes(folder: Path, name: str, span: str, *, path: str | None = None) -> list[Change]:
    """The revisions of a span that change a file, the oldest first; with a `path` from the top,
    the last one that changed that.

    Reversed here: git cannot follow renames backwards and list forwards.
    """
    found = ["--follow"] if path is None else ["--max-count=1"]
    said = _git(
        folder,
        "log",
        *found,
        "--topo-order",
        "--no-color",
        "--no-notes",
        "--encoding=UTF-8",
        "--no-ext-diff",
        "--no-textconv",
        "--no-relative",
        "--name-status",
        "-z",
        f"--format=format:{_HASH}%H{_FIELD}%h{_FIELD}%s{_FIELD}",
        "--end-of-options",
        span,
        "--",
        f":(literal){name}" if path is None else f":(top,literal){path}",
    ).decode(errors="replace")
    records = said.split(_HASH)[1:]
    return [_change(record) for record in reversed(records)]


def _change(record: str) -> Change:
    revision, short, subject, rest = record.split(_FIELD, 3)
    parts = [part.lstrip("\n") for part in rest.split("\0") if part.strip("\n")]
    kind, names = (parts[0][:1], parts[1:]) if parts else ("", [])
    path = names[-1] if names and kind != "D" else None
    before = names[0] if names and kind not in {"A", "C"} else None
    return Change(revision=revision, short=short, subject=subject, path=path, path_before=before)


def _git(folder: Path, *words: str) -> bytes:
    """What git says; the one place that calls it.

    It runs none of the programs that a repository may name and fetches nothing. Variables that a
    process around this one may have set for a git of its own (`GIT_DIR`, `GIT_SSH_COMMAND`, …) do
    not count; where the user's own configuration lies does. Raises BadVersions with git's first
    line where it declines.
    """
    command = ["git", "-C", str(folder), *_SAFE, *words]
    around = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name.startswith(_USERS)
    }
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            env=around | _ENVIRONMENT,
            timeout=_GIT_S,
        )
    except OSError as error:
        raise BadVersions(f"cannot run git: {error}", "versions can be files too") from error
    except subprocess.TimeoutExpired as error:
        raise BadVersions(
            f"git did not end within {_GIT_S:.0f} s", "versions can be files too"
        ) from error
    if done.returncode:
        said = format.one_line(done.stderr.decode(errors="replace")) or f"code {done.returncode}"
        raise BadVersions(f"git: {said}")
    return done.stdout
