"""`arc bisect versions --git` in a repository of somebody else: each way in which git runs a
program that it names, or fetches, leaves a mark. Plain git steps into every trap; arc into none.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from arc_tui.features.bisect import versions
from arc_tui.features.bisect.versions import BadVersions, of_git
from tests.arc_tui.bisect_case import Repository, repository

FILE = "system.md"
OLD, NEW = "Be brief.\n", "Be brief. Say why.\n"


class Hostile:
    """A repository with two versions of a prompt, and a program that leaves a mark when it runs."""

    def __init__(self, folder: Path) -> None:
        self.repository: Repository = repository(folder / "hostile")
        self.folder = self.repository.folder
        self.git = self.repository.git
        self.mark = folder / "mark"
        self.program = folder / "program"
        self.program.write_text(f'#!/bin/sh\necho ran > "{self.mark}"\nexit 1\n')
        self.program.chmod(0o755)
        self.repository.commit("One", system__md=OLD)
        self.repository.commit("Two", system__md=NEW)

    def config(self, **values: str) -> None:
        """Set `a__b` to its value for `a.b`."""
        for name, value in values.items():
            self.git("config", name.replace("__", "."), value)

    def promise(self, url: str, **values: str) -> None:
        """Take the old version out: a remote promised to have it."""
        blob = self.git("rev-parse", f"HEAD~1:{FILE}").strip()
        (self.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        self.config(
            core__repositoryFormatVersion="1", extensions__partialClone="origin",
            remote__origin__url=url, remote__origin__promisor="true", **values,
        )  # fmt: skip

    def attributes(self, line: str) -> None:
        (self.folder / ".git" / "info" / "attributes").write_text(f"{FILE} {line}\n")

    def plainly(self, *words: str, **environment: str) -> None:
        """What git does by itself."""
        subprocess.run(
            ["git", "-C", str(self.folder), *words], capture_output=True, check=False,
            stdin=subprocess.DEVNULL, env={**self.repository._environment, **environment},
        )  # fmt: skip


class Way(NamedTuple):
    """A trap, and the words of plain git that step into it. `missing` where the old version is not
    there, so that arc has to say so."""

    name: str
    lay: Callable[[Hostile], None]
    words: tuple[str, ...]
    missing: bool = False
    environment: bool = False


BLOB = ("cat-file", "blob", f"HEAD~1:{FILE}")


def _remote_helper(made: Hostile) -> None:
    made.promise(f"ext::{made.program} %S")
    made.config(protocol__ext__allow="always")


def _auto_hook(made: Hostile) -> None:
    hooks = made.folder / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").symlink_to(made.program)
    made.config(core__hooksPath=str(hooks))


def _included(made: Hostile) -> None:
    other = made.folder / "more"
    other.write_text(f"[core]\n\tfsmonitor = {made.program}\n")
    made.config(include__path=str(other))


def _textconv(made: Hostile) -> None:
    made.attributes("diff=x")
    made.config(diff__x__textconv=str(made.program))


def _diff_driver(made: Hostile) -> None:
    made.attributes("diff=x")
    made.config(diff__x__command=str(made.program))


def _filter(made: Hostile) -> None:
    made.attributes("filter=x")
    made.config(filter__x__smudge=str(made.program), filter__x__clean=str(made.program))


def _signed(made: Hostile) -> None:
    raw = made.git("cat-file", "commit", "HEAD").split("\n\n", 1)
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    (made.folder / ".git" / "signed").write_text(f"{raw[0]}\n{signature}\n\n{raw[1]}")
    new = made.git("hash-object", "-t", "commit", "-w", ".git/signed").strip()
    made.git("update-ref", "HEAD", new)
    made.config(gpg__program=str(made.program), log__showSignature="true")


def _elsewhere(made: Hostile) -> None:
    """`.git` is a file that names another folder, whose configuration counts."""
    made.promise("ssh://host/x", core__sshCommand=str(made.program))
    inside = made.folder.with_name("inside")
    (made.folder / ".git").rename(inside)
    (made.folder / ".git").write_text(f"gitdir: {inside}\n")


WAYS = (
    Way("promised, by ssh",
        lambda made: made.promise("ssh://host/x", core__sshCommand=str(made.program)), BLOB, True),
    Way("promised, by a remote helper", _remote_helper, BLOB, True),
    Way("promised, by a helper that the remote names",
        lambda made: made.promise(f"{made.program} %S", remote__origin__vcs="ext",
                                  protocol__ext__allow="always"), BLOB, True),
    Way("promised, in a folder",
        lambda made: made.promise(str(made.folder), remote__origin__uploadpack=str(made.program)),
        BLOB, True),
    Way("promised, by git's own protocol",
        lambda made: made.promise("git://host.invalid/x", core__gitProxy=str(made.program)),
        BLOB, True),
    Way("`.git` is a file", _elsewhere, BLOB, True),
    Way("hooks", _auto_hook, ("checkout", "-q", "--detach")),
    Way("a monitor of files", lambda made: made.config(core__fsmonitor=str(made.program)),
        ("status",)),
    Way("an included file", _included, ("status",)),
    Way("text conversion", _textconv, ("log", "-p", FILE)),
    Way("a driver of differences", _diff_driver, ("log", "-p", "--ext-diff", FILE)),
    Way("another program for differences",
        lambda made: made.config(diff__external=str(made.program)), ("diff", "HEAD~1", "HEAD")),
    Way("a filter of contents", _filter, ("cat-file", "--filters", f"HEAD~1:{FILE}")),
    Way("a signature", _signed, ("log",)),
    Way("another name for a command",
        lambda made: made.config(alias__versions=f"!{made.program}"), ("versions",)),
    Way("refs of borrowed objects",
        lambda made: made.config(core__alternateRefsCommand=f"{made.program} #"),
        ("rev-list", "--alternate-refs")),
    Way("the environment: a remote's ssh", lambda made: made.promise("ssh://host/x"),
        BLOB, True, environment=True),
)  # fmt: skip


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    return Hostile(tmp_path)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_no_program_that_a_repository_names_is_run(
    hostile: Hostile, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "borrowed" in way.name:
        other = repository(hostile.folder.with_name("lender"))
        other.commit("Lent", other="x")
        (hostile.folder / ".git" / "objects" / "info" / "alternates").write_text(
            f"{other.folder}/.git/objects\n"
        )
    way.lay(hostile)
    ssh = {"GIT_SSH_COMMAND": str(hostile.program)} if way.environment else {}
    hostile.plainly(*way.words, **ssh)
    assert hostile.mark.exists(), "the trap is none: git by itself does not step into it"
    hostile.mark.unlink()
    for name, value in ssh.items():
        monkeypatch.setenv(name, value)
    if way.missing:
        with pytest.raises(BadVersions, match=r"^git: "):
            of_git(hostile.folder / FILE, "HEAD~1..HEAD")
    else:
        found = of_git(hostile.folder / FILE, "HEAD~1..HEAD")
        assert [each.text for each in found] == [OLD, NEW]
    assert not hostile.mark.exists()


def test_a_revision_is_its_own_text_whatever_stands_in_for_it(hostile: Hostile) -> None:
    old, new = (hostile.git("rev-parse", f"{at}:{FILE}").strip() for at in ("HEAD~1", "HEAD"))
    hostile.git("replace", old, new)
    assert hostile.git("show", f"HEAD~1:{FILE}") == NEW
    assert [each.text for each in of_git(hostile.folder / FILE, "HEAD~1..HEAD")] == [OLD, NEW]


def test_variables_for_another_repository_do_not_count(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = repository(tmp_path / "other")
    other.commit("Another", system__md="other")
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    assert len(of_git(hostile.folder / FILE, "HEAD~1..HEAD")) == 2


@pytest.mark.parametrize(
    "values",
    [
        {"diff__relative": "true"},
        {"i18n__logOutputEncoding": "UTF-16"},
        {"color__ui": "always"},
        {"log__diffMerges": "off"},
        {"format__pretty": "oneline"},
        {"log__decorate": "full", "log__follow": "true"},
    ],
)
def test_settings_of_the_repository_do_not_change_what_is_read(
    hostile: Hostile, values: dict[str, str]
) -> None:
    hostile.repository.commit("Three \x1e \x1f é", system__md=f"{NEW}Once.\n")
    hostile.config(**values)
    found = of_git(hostile.folder / FILE, "HEAD~2..HEAD")
    assert [each.text for each in found] == [OLD, NEW, f"{NEW}Once.\n"]
    assert found[-1].note == "Three \x1e \x1f é"


@pytest.mark.slow
def test_git_that_never_answers_is_stopped(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that nobody writes to is included: git waits for its end."""
    os.mkfifo(hostile.folder / "pipe")
    with (hostile.folder / ".git" / "config").open("a") as file:
        file.write(f"[include]\n\tpath = {hostile.folder / 'pipe'}\n")
    monkeypatch.setattr(versions, "_GIT_S", 0.5)
    with pytest.raises(BadVersions, match="git did not end within 0 s"):
        of_git(hostile.folder / FILE, "HEAD~1..HEAD")
