"""Which files does a call write, and what does it put there? By the call alone.

Read are the editing tools of coding agents, by the names of their arguments (a path, an old and a
new text, a whole text), patches in the form of `apply_patch`, unified diffs and SEARCH/REPLACE
blocks, the commands of SWE-agent's editors, and shell commands: redirections, here-documents,
`tee`, `sed -i`, `cp`, `mv`, `rm`, `touch`, `git checkout` and `restore`, and the files that a
Python program opens to write. What a program writes by other means is not known.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import zip_longest

from msgspec import Struct, structs

from replay.effects import PROGRAM_KEYS, guess, words_of
from replay.trace import Json
from taxonomy.evidence.reading import Act, Reading


class FileEdit(Struct, frozen=True, kw_only=True):
    """One place of a file that a call writes. `before` is the text that it takes out and `after`
    the text in its place, None where the call does not show it; `whole`: `after` is all that the
    file has then. `removed`: the file is deleted; `restored`: it is as it was committed."""

    path: str
    before: str | None = None
    after: str | None = None
    whole: bool = False
    removed: bool = False
    restored: bool = False

    @property
    def shows_text(self) -> bool:
        """Is there something of the change to be seen?"""
        return bool(self.before or self.after)


class FileWrite(Struct, frozen=True, eq=False, kw_only=True):
    """An edit that a call made, with the call."""

    act: Act
    edit: FileEdit

    @property
    def step(self) -> int:
        return self.act.step


def file_writes(reading: Reading) -> tuple[FileWrite, ...]:
    """Every edit of a run in step order, those of calls that failed left out."""
    return tuple(each for each in tried_writes(reading) if not each.act.reply.failed)


def tried_writes(reading: Reading) -> Iterator[FileWrite]:
    """Every edit that a run tried, in step order; what a call that failed wrote is not known."""
    programs = (act for act in reading.programs.values() if not reading.turns[act.step].acts)
    for act in sorted((*reading.acts, *programs), key=lambda act: act.step):
        for edit in edits_of(act.name, act.span.arguments, act.reply.text):
            yield FileWrite(act=act, edit=edit)


_TEST_FILE = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|testing)/|(?:^|/)(?:test_[^/]*|conftest)\.py$"
    r"|(?:^|/)[^/]*(?:_test|_spec|\.test|\.spec)\.\w+$|(?:^|/)[A-Z]\w*Tests?\.(?:java|kt|cs)$"
)


def is_test_file(path: str) -> bool:
    """Is a file one of tests, by its name or its folder?"""
    return bool(_TEST_FILE.search(path.replace("\\", "/")))


def is_same_file(one: str, other: str) -> bool:
    """Do two paths name one file, as far as the shorter one tells?"""
    one, other = plain_path(one), plain_path(other)
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def file_name(path: str) -> str:
    """The last part of a path: two paths of one file share it."""
    return plain_path(path).rpartition("/")[2]


@lru_cache(4_096)
def plain_path(path: str) -> str:
    """A path as paths are held against each other."""
    return re.sub(r"^(?:\./|~/|[ab]/(?=\w))+|/+$", "", path.strip().replace("\\", "/"))


_PATHS = ("file_path", "filePath", "path", "target_file", "absolute_path", "notebook_path",
          "filename", "file_name", "file")  # fmt: skip
_OLD = ("old_string", "oldString", "old_str", "old_text", "oldText", "search", "old_code")
_NEW = ("new_string", "newString", "new_str", "new_text", "newText", "replace", "new_code",
        "replacement_text", "replacement", "code_edit")  # fmt: skip
_WHOLE = ("content", "contents", "file_text", "text", "new_source", "file_content")
_PARTS = ("edits", "replacements", "changes")
_PATCHES = ("patch", "diff", "input", "patch_text")
_READS = frozenset({"view", "undo_edit", "read", "open"})
"""Commands of editors that put nothing into a file."""


def edits_of(tool: str, arguments: Json, reply: str = "") -> tuple[FileEdit, ...]:
    """What a call writes into files, () where that is nothing or not known. `reply` is what came
    back, where editors of one open file say which file that is."""
    if isinstance(arguments, str):
        return tuple(_read_patches(arguments, "")) or tuple(_of_program(arguments, reply))
    if not isinstance(arguments, dict):
        return ()
    found = tuple(_of_editor(tool, arguments, reply))
    if found:
        return found
    return tuple(
        edit
        for key, value in arguments.items()
        if str(key).lower() in PROGRAM_KEYS and arguments.get("path") is None
        for edit in _of_program(_command(value), reply)
    )


def only_edits(arguments: Json) -> bool:
    """Do the edits of a call say all that its arguments do? A shell command may do more."""
    if isinstance(arguments, dict) and _text(arguments, _PATHS) is None:
        programs = (v for k, v in arguments.items() if str(k).lower() in PROGRAM_KEYS)
        return all(_BEGIN in _command(each) for each in programs)
    return not isinstance(arguments, str) or _BEGIN in arguments


def _text(values: Mapping[str, Json], names: Sequence[str]) -> str | None:
    return next((values[name] for name in names if isinstance(values.get(name), str)), None)


def _of_editor(tool: str, given: dict[str, Json], reply: str) -> Iterator[FileEdit]:
    """The edits of a tool that takes a path and texts."""
    patch = _text(given, _PATCHES)
    path = _text(given, _PATHS) or ""
    patched = tuple(_read_patches(patch, path)) if patch is not None else ()
    if patched:
        yield from patched
        return
    command = _text(given, ("command",))
    if command in _READS or (not path and not _edits_open_file(tool)):
        return
    path = (path or _open_file(reply)).strip()
    parts: list[Json] = next(
        (given[name] for name in _PARTS if isinstance(given.get(name), list)), []
    )
    for part in [given, *(part for part in parts if isinstance(part, dict))]:
        old, new = _text(part, _OLD), _text(part, _NEW)
        if path and (old is not None or new is not None):
            yield FileEdit(path=path, before=old, after=new or "" if old is not None else new)
    whole = _text(given, _WHOLE)
    writes = guess(tool) == "write" or command in ("create", "append", "insert")
    writes = writes or bool({"write", "create", "notebook"} & set(words_of(tool)))
    if path and whole is not None and writes and _text(given, (*_OLD, *_NEW)) is None:
        added = command in ("append", "insert") or "insert_line" in given
        yield FileEdit(path=path, after=whole, whole=not added and "insert" not in words_of(tool))


def _edits_open_file(tool: str) -> bool:
    return tool in ("edit", "insert")


_OPEN_FILE = re.compile(r"\[File: (.+?) \(\d+ lines total\)\]|\(Open file: (?!n/a)(.+?)\)")


def _open_file(reply: str) -> str:
    """The file that an editor says it shows, "" where it says none."""
    match = _OPEN_FILE.search(reply)
    return (match[1] or match[2]) if match else ""


# --- patches

_BEGIN = "*** Begin Patch"
_PATCH_FILE = re.compile(r"^\*\*\* (?P<what>Add|Update|Delete) File: (?P<path>.+)$", re.M)
_PATCH_END = re.compile(r"^\*\*\* (?:End Patch|End of File|Move to: .*)$\n?", re.M)
_DIFF_FILE = re.compile(r"^--- (?P<old>\S+).*\n\+\+\+ (?P<new>\S+).*\n", re.M)
_HUNK = re.compile(r"^@@.*$\n?", re.M)
_SEARCH = re.compile(
    r"^[<-]{5,9} ?SEARCH.*\n(?P<old>(?s:.*?))^={5,9}\n(?P<new>(?s:.*?))^[>+]{5,9} ?REPLACE", re.M
)


def _read_patches(text: str, path: str) -> Iterator[FileEdit]:
    """The edits of the patches in a text; `path` is the file where a patch names none."""
    if _BEGIN in text:
        text = text[text.index(_BEGIN) :].partition("*** End Patch")[0]
        yield from _codex_patch(text)
    elif _DIFF_FILE.search(text):
        heads = list(_DIFF_FILE.finditer(text))
        for head, after in zip_longest(heads, heads[1:]):
            body = text[head.end() : after.start() if after else len(text)]
            gone = head["new"] == "/dev/null"
            name = plain_path(head["old"] if gone else head["new"])
            if gone:
                yield FileEdit(path=name, removed=True)
            else:
                yield from _hunks(name, body.partition("\ndiff --git ")[0])
    elif path and "SEARCH" in text:
        for match in _SEARCH.finditer(text):
            yield FileEdit(path=path, before=match["old"], after=match["new"])
    elif path and _HUNK.search(text):
        yield from _hunks(path, text)


def _codex_patch(text: str) -> Iterator[FileEdit]:
    heads = list(_PATCH_FILE.finditer(text))
    for head, after in zip_longest(heads, heads[1:]):
        body = text[head.end() + 1 : after.start() if after else len(text)]
        path = head["path"].strip()
        if head["what"] == "Delete":
            yield FileEdit(path=path, removed=True)
        elif head["what"] == "Add":
            lines = (line[1:] for line in body.splitlines() if line.startswith("+"))
            yield FileEdit(path=path, after="\n".join(lines), whole=True)
        else:
            yield from _hunks(path, _PATCH_END.sub("", body))


def _hunks(path: str, body: str) -> Iterator[FileEdit]:
    for hunk in _HUNK.split(body):
        lines = [line for line in hunk.splitlines() if line[:1] in " -+" and line[:3] != "***"]
        if any(line[:1] in "-+" for line in lines if line):
            yield FileEdit(
                path=path,
                before="\n".join(line[1:] for line in lines if line[:1] != "+"),
                after="\n".join(line[1:] for line in lines if line[:1] != "-"),
            )


# --- programs


def _command(value: Json) -> str:
    """A command as one text, also `["bash", "-lc", "…"]` and `["apply_patch", "…"]`."""
    if isinstance(value, str):
        return value
    parts = [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
    if parts and parts[0].rsplit("/", 1)[-1] in ("bash", "sh", "zsh"):
        return parts[-1]
    return "\n".join(parts) if parts[:1] == ["apply_patch"] else shlex.join(parts)


_SWE_EDIT = re.compile(r"\s*edit (?:\d+:\d+|\S+)?[^\n]*\n(?P<new>(?s:.*?))\n?end_of_edit")
_SWE_CREATE = re.compile(r"\s*create (?P<path>\S+)\s*\Z")
_SWE_EDITOR = re.compile(r"\s*str_replace_editor\s+(?:create|str_replace|insert)\b")
_LONGEST = 100_000
"""Characters of a program that are read: beyond, it holds data."""


@lru_cache(maxsize=2_000)
def _of_program(text: str, reply: str) -> tuple[FileEdit, ...]:
    return tuple(_read_program(text[:_LONGEST], reply))


def _read_program(text: str, reply: str) -> Iterator[FileEdit]:
    """The edits of a program: a shell command, or the code of some language."""
    if _BEGIN in text:
        yield from _codex_patch(text[text.index(_BEGIN) :].partition("*** End Patch")[0])
        return
    edit = _SWE_EDIT.match(text)
    if edit is not None:
        path = _open_file(reply)
        if path:
            yield FileEdit(path=path, after=edit["new"])
        return
    created = _SWE_CREATE.match(text)
    if created is not None:
        yield FileEdit(path=created["path"], after="", whole=True)
        return
    if _SWE_EDITOR.match(text):
        yield from _editor_command(text)
        return
    yield from _python_writes(text)
    yield from _shell_writes(text)


def _editor_command(text: str) -> Iterator[FileEdit]:
    """SWE-agent's editor called as a shell command."""
    try:
        words = shlex.split(text)
    except ValueError:
        return
    if len(words) < 3:
        return
    options = {
        word.lstrip("-"): words[at + 1]
        for at, word in enumerate(words[:-1])
        if word.startswith("--")
    }
    given: dict[str, Json] = {"command": words[1], "path": words[2], **options}
    yield from _of_editor("str_replace_editor", given, "")


_HEREDOC = re.compile(
    r"<<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)(?P<rest>[^\n]*)\n(?P<body>(?s:.*?))"
    r"(?:\n?^[ \t]*(?P=end)[ \t]*$|\Z)",
    re.M,
)
_PLACE = "\x01"
"""Stands for a here-document in the command that is fed with it."""


def _shell_writes(text: str) -> Iterator[FileEdit]:
    bodies: list[str] = []

    def keep(match: re.Match[str]) -> str:
        bodies.append(match["body"])
        return f" {_PLACE}{len(bodies) - 1}{_PLACE} {match['rest']}"

    lexer = shlex.shlex(_HEREDOC.sub(keep, text), posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
    try:
        tokens = list(lexer)
    except ValueError:
        return
    words: list[str] = []
    targets: list[tuple[str, bool]] = []
    at = iter([*tokens, ";"])
    for token in at:
        if not token or set(token) - set("();<>|&\n"):
            words.append(token)
        elif token in (">", ">>", ">|", "&>", "&>>"):
            targets.append((next(at, ""), token.endswith(">>")))
        elif token == ">&" or "<" in token:
            next(at, "")
        else:
            yield from _of_words(words, targets, bodies)
            words, targets = [], []


def _of_words(
    words: Sequence[str], targets: Sequence[tuple[str, bool]], bodies: Sequence[str]
) -> Iterator[FileEdit]:
    """The edits of one program with its arguments and redirections."""
    fed = next((bodies[int(w.strip(_PLACE))] for w in words if w.startswith(_PLACE)), None)
    words = [word for word in words if not word.startswith(_PLACE)]
    while words and re.fullmatch(r"\w+=.*|sudo|then|do|else|time|!|\{", words[0], re.S):
        words = words[1:]
    name = words[0].rsplit("/", 1)[-1] if words else ""
    shown = fed if name in ("cat", "tee") else None
    if name in ("echo", "printf") and len(words) > 1:
        shown = words[-1]
    for path, added in targets:
        if _is_path(path):
            yield FileEdit(path=path, after=shown, whole=not added and shown is not None)
    files = [word for word in words[1:] if not word.startswith("-")]
    options = [word for word in words[1:] if word.startswith("-")]
    for edit in _written_by(name, files, options):
        if _is_path(edit.path):
            yield structs.replace(edit, after=shown) if name == "tee" else edit


def _written_by(name: str, files: Sequence[str], options: Sequence[str]) -> Iterator[FileEdit]:
    """What a program writes by its arguments."""
    if name in ("tee", "touch", "truncate"):
        yield from (FileEdit(path=path) for path in files)
    elif name in ("sed", "perl"):
        if any(re.match(r"-\w*i|--in-place", option) for option in options):
            scripted = any(option in ("-e", "-pe") for option in options)
            yield from (FileEdit(path=path) for path in files[1 if not scripted else -1 :])
    elif name in ("cp", "mv", "install"):
        if len(files) > 1:
            yield FileEdit(path=files[-1])
        if name == "mv":
            yield from (FileEdit(path=path, removed=True) for path in files[:-1])
    elif name in ("rm", "unlink"):
        yield from (FileEdit(path=path, removed=True) for path in files)
    elif name == "git" and files[:1] in (["checkout"], ["restore"]):
        paths = (path for path in files[1:] if "." in path or "/" in path)
        yield from (FileEdit(path=path, restored=True) for path in paths)
    elif name == "git" and files[:1] == ["rm"]:
        yield from (FileEdit(path=path, removed=True) for path in files[1:])


_ODD_PATH = re.compile(r"[*?$`{}()=\n\x01\"']|^&?\d$|^[-+]|^/dev/")


def _is_path(text: str) -> bool:
    return bool(text) and len(text) < 300 and not _ODD_PATH.search(text)


_PYTHON_WRITE = re.compile(
    r"\bopen\(\s*(?P<q>['\"])(?P<path>[^'\"\n]+)(?P=q)\s*,\s*(?:mode\s*=\s*)?['\"][wax]"
    r"|\bPath\(\s*(?P<r>['\"])(?P<file>[^'\"\n]+)(?P=r)\s*\)\.(?:write_\w+|touch|unlink)\("
    r"|\.(?:to_\w+|save\w*|dump)\(\s*(?P<s>['\"])(?P<saved>[^'\"\n]+\.\w+)(?P=s)"
    r"|\bwriteFileSync\(\s*(?P<t>['\"`])(?P<node>[^'\"`\n]+)(?P=t)"
)


def _python_writes(text: str) -> Iterator[FileEdit]:
    """The files that a program opens to write by their names."""
    for match in _PYTHON_WRITE.finditer(text):
        path = match["path"] or match["file"] or match["saved"] or match["node"]
        if path and _is_path(path):
            yield FileEdit(path=path)
