"""Which files calls write: the editing tools of real agents, patches, and shell commands."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.evidence.file_edits import FileEdit, edits_of, is_same_file, is_test_file

PATCH = """*** Begin Patch
*** Update File: src/orders.py
@@ def total(lines):
-    return sum(price for price, _ in lines)
+    return sum(price * count for price, count in lines)
*** Add File: notes.md
+Done.
*** Delete File: old.py
*** End Patch"""
DIFF = """diff --git a/src/orders.py b/src/orders.py
--- a/src/orders.py
+++ b/src/orders.py
@@ -1,3 +1,3 @@
 def total(lines):
-    return 1
+    return 2
"""
BLOCKS = "<<<<<<< SEARCH\nreturn 1\n=======\nreturn 2\n>>>>>>> REPLACE"


def edit(path: str, before: str | None = None, after: str | None = None, **more: Any) -> FileEdit:
    return FileEdit(path=path, before=before, after=after, **more)


@pytest.mark.parametrize(
    ("tool", "arguments", "wanted"),
    [
        # Claude Code
        ("Write", {"file_path": "a.py", "content": "x"}, [edit("a.py", after="x", whole=True)]),
        ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"},
         [edit("a.py", "x", "y")]),
        ("MultiEdit", {"file_path": "a.py", "edits": [
            {"old_string": "x", "new_string": "y"}, {"old_string": "1", "new_string": "2"}]},
         [edit("a.py", "x", "y"), edit("a.py", "1", "2")]),
        # Gemini CLI, opencode
        ("write_file", {"file_path": "a.py", "content": "x"},
         [edit("a.py", after="x", whole=True)]),
        ("replace", {"file_path": "a.py", "old_string": "x", "new_string": ""},
         [edit("a.py", "x", "")]),
        ("edit", {"filePath": "a.py", "oldString": "x", "newString": "y"},
         [edit("a.py", "x", "y")]),
        # OpenHands and SWE-agent
        ("str_replace_editor", {"command": "create", "path": "a.py", "file_text": "x"},
         [edit("a.py", after="x", whole=True)]),
        ("str_replace_editor", {"command": "str_replace", "path": "a.py", "old_str": "x",
                                "new_str": "y"}, [edit("a.py", "x", "y")]),
        ("str_replace_editor",
         {"command": "insert", "path": "a.py", "insert_line": 3, "new_str": "y"},
         [edit("a.py", after="y")]),
        ("str_replace_editor", {"command": "str_replace_editor str_replace /r/a.py --old_str 'x' "
                                "--new_str 'y'"}, [edit("/r/a.py", "x", "y")]),
        # Codex
        ("apply_patch", PATCH, [
            edit("src/orders.py", "    return sum(price for price, _ in lines)",
                 "    return sum(price * count for price, count in lines)"),
            edit("notes.md", after="Done.", whole=True), edit("old.py", removed=True)]),
        ("apply_patch", "*** Begin Patch\n*** End Patch", []),
        ("shell", {"command": ["apply_patch", PATCH.replace("notes.md", "b.md")]}, [
            edit("src/orders.py", "    return sum(price for price, _ in lines)",
                 "    return sum(price * count for price, count in lines)"),
            edit("b.md", after="Done.", whole=True), edit("old.py", removed=True)]),
        ("final_answer", {"path": "", "patch": DIFF}, [
            edit("src/orders.py", "def total(lines):\n    return 1",
                 "def total(lines):\n    return 2")]),
        # Cline
        ("replace_in_file", {"path": "a.py", "diff": BLOCKS},
         [edit("a.py", "return 1\n", "return 2\n")]),
        # what only looks
        ("Read", {"file_path": "a.py"}, []),
        ("str_replace_editor", {"command": "view", "path": "a.py"}, []),
        ("search", {"path": "a.py", "text": "x"}, []),
        ("send_mail", {"text": "x", "to": "a@b.test"}, []),
    ],
)  # fmt: skip
def test_the_tools_of_agents(tool: str, arguments: Any, wanted: list[FileEdit]) -> None:
    assert list(edits_of(tool, arguments)) == wanted


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("cat > a.py <<'EOF'\nx = '>'\nEOF", [edit("a.py", after="x = '>'", whole=True)]),
        ("cat >> a.py <<EOF\nx\nEOF\npytest", [edit("a.py", after="x")]),
        ("echo hello > out.txt", [edit("out.txt", after="hello", whole=True)]),
        ("printf 'a b' | tee -a 'my file.txt'", [edit("my file.txt")]),
        ("sed -i 's/a/b/' one.py two.py", [edit("one.py"), edit("two.py")]),
        ("cd /r && sed -i.bak -e 's/a/b/' one.py", [edit("one.py")]),
        ("sed -n 1,5p one.py", []),
        ("cp a.py b.py && mv c.py d.py", [edit("b.py"), edit("d.py"), edit("c.py", removed=True)]),
        ("rm -f tests/test_a.py", [edit("tests/test_a.py", removed=True)]),
        ("git checkout -- tests/test_a.py", [edit("tests/test_a.py", restored=True)]),
        ("git checkout main", []),
        ("pytest 2>&1 | tail -5 > /dev/null", []),
        ("python -c \"print(1 > 2)\"", []),
        ("python - <<'EOF'\nwith open('r.csv', 'w') as f: f.write('1')\nopen('b.csv')\nEOF",
         [edit("r.csv")]),
        ("if [ 1 -gt 0 ]; then echo x > y.txt; fi", [edit("y.txt", after="x", whole=True)]),
        ("echo \"it's", []),
    ],
)  # fmt: skip
def test_shell_commands(command: str, wanted: list[FileEdit]) -> None:
    assert list(edits_of("bash", {"command": command})) == wanted


def test_the_file_that_an_editor_holds_open_is_named_by_its_reply() -> None:
    reply = "[File: /r/a.py (9 lines total)]\n1:x\n(Open file: /r/a.py)"
    written = edits_of("edit", {"command": "edit 4:4\ny = 1\nend_of_edit"}, reply)
    assert written == (edit("/r/a.py", after="y = 1"),)
    searched = edits_of("edit", {"search": "x", "replace": "y"}, reply)
    assert searched == (edit("/r/a.py", "x", "y"),)
    assert edits_of("edit", {"command": "edit 4:4\ny = 1\nend_of_edit"}, "") == ()


@pytest.mark.parametrize(
    ("path", "is_test"),
    [
        ("tests/test_a.py", True), ("src/a_test.go", True), ("src/a.test.ts", True),
        ("conftest.py", True), ("app/__tests__/a.js", True), ("src/OrderTest.java", True),
        ("src/contest.py", False), ("src/testing_tools.py", False), ("latest/a.py", False),
        ("protest.py", False), ("spec.md", False),
    ],
)  # fmt: skip
def test_files_of_tests(path: str, is_test: bool) -> None:
    assert is_test_file(path) is is_test


def test_paths_that_name_one_file() -> None:
    assert is_same_file("/repo/src/a.py", "src/a.py")
    assert is_same_file("./a.py", "a.py")
    assert not is_same_file("src/aa.py", "a.py")


KEYS = st.sampled_from(
    ["path", "file_path", "command", "cmd", "content", "edits", "patch", "old_string", "new_string"]
)
TEXTS = st.text(max_size=40) | st.sampled_from(
    [
        "str_replace_editor create",
        "apply_patch",
        PATCH[:40],
        PATCH[:16],
        DIFF[:60],
        BLOCKS,
        "cat <<EOF >",
        "a>",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


@given(tool=st.sampled_from(["Edit", "str_replace_editor", "bash", "edit", ""]), given_=VALUES)
def test_whatever_a_call_was_given_is_read(tool: str, given_: Any) -> None:
    for found in edits_of(tool, given_, "[File: a.py (1 lines total)]"):
        assert isinstance(found.path, str)
