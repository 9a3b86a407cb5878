"""The file of settings as it is made for a person: all that may stand in it, as comments."""

from __future__ import annotations

from pathlib import Path

from replay.errors import ArcError

TEMPLATE = """\
# The settings of arc. A line that begins with # says nothing; what it shows is an example.
# `arc config` prints what holds and where it comes from. In the app, `,` does, and reads this
# file again after an edit.

[app]
# auto (dark; plain where the terminal has few colours), arc-dark, arc-light, arc-plain, or a
# theme of Textual: nord, gruvbox, dracula, solarized-light, …
# theme = "auto"

# The columns of the list of runs: why, figures, source.
# columns = "why"

# false leaves the mouse to the terminal, to select text as ever. From the next start on.
# mouse = true

[keys]
# What is done, by its id, and the keys for it. `arc config keys` lists the ids.
# A character or a name: "t", "?", "ctrl+k", "f6", "space", "comma"; several with commas between.
# trace.tag = "ctrl+k"
# app.settings = "comma,f11"

[owners]
# Whose a failure is: a class, a class with its sub-label, or a fault.
# bad_args = "tools team"
# "other / cap hit" = "ops"
# "fault:harness" = "platform"

[redact]
# What is masked before anything is stored, besides what arc finds by itself.
# pii = false
# keys = ["badge no"]
# allow = ["EXAMPLE-7"]

[redact.patterns]
# badge = "E-[0-9]{6}"
"""


def make(file: Path) -> None:
    """Write the file, which must not be there yet. Raises ArcError."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as made:
            made.write(TEMPLATE)
    except FileExistsError as error:
        raise ArcError(f"{file} is there already", "`arc config --edit` opens it") from error
    except OSError as error:
        raise ArcError(f"{file}: cannot be made: {error.strerror}") from error
