"""A replay in one file, to be run again elsewhere: what it saw, and what it came to.

A bundle holds the masked trace, what was attached to it, the edit, the answers that were used and
the result. Run again from the file alone, offline, the result has to come out with the same
digest: then it follows from this evidence under these rules. The sums in the manifest find damage;
nothing in a bundle shows who made it, or that the answers are a model's.

`archive` is the file, `manifest` its list, `contents` what stands in it, `rerun` the proof.
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from replay import files
from replay.bundle import contents
from replay.bundle.contents import BadBundle, Bundle, Result, gathered
from replay.bundle.rerun import Verified, rerun
from replay.free.recorded_results import BARE, Terms
from replay.store.handle import Store

__all__ = [
    "BadBundle",
    "Bundle",
    "Result",
    "Verified",
    "gathered",
    "read",
    "rerun",
    "verify",
    "write",
]


def write(store: Store, result: Result, file: Path, terms: Terms = BARE) -> Verified:
    """Write a replay to `file`, in place of what is there; readable by its owner alone.

    `terms` are those of a free replay. The same replay gives the same bytes. It is run again from
    them first: no bundle is written that could not be verified.

    Raises NotFound where its trace or edit is not stored, BadBundle where it cannot be run again
    (an answer is gone, the trace was completed since) or the file cannot be written.
    """
    data = contents.packed(contents.encoded(gathered(store, result, terms)))
    found = rerun(contents.decoded(contents.Archive(data)))
    if not found.same:
        raise BadBundle(
            f"run again, the replay comes to something else by now ({found.differs[0]})",
            "replay it, and bundle that",
        )
    _put(file, data)
    return found


def read(file: Path) -> Bundle:
    """The contents of a bundle, every sum in it checked.

    Raises BadBundle naming the member that is wrong; BadTrace where the trace cannot be read.
    """
    try:
        size_bytes = file.stat().st_size
        if size_bytes > contents.MAX_FILE_BYTES:
            raise BadBundle(f"is larger than {contents.MAX_FILE_BYTES >> 20} MiB")
        return contents.decoded(contents.Archive(file.read_bytes()))
    except OSError as error:
        raise BadBundle(f"{file}: cannot be read: {error.strerror}") from error
    except BadBundle as error:
        raise BadBundle(f"{file}: {error.message}", error.hint) from error


def verify(file: Path) -> Verified:
    """Run the replay of a bundle again from the file alone. Raises as `read` does."""
    bundle = read(file)
    try:
        return rerun(bundle)
    except BadBundle as error:
        raise BadBundle(f"{file}: {error.message}", error.hint) from error


def _put(file: Path, data: bytes) -> None:
    """Whole or not at all: a file beside it takes its name."""
    try:
        files.put(BytesIO(data), file)  # of mode 0600
    except OSError as error:
        raise BadBundle(f"{file}: cannot be written: {error.strerror}") from error
