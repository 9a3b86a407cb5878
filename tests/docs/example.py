"""The kept example of a report, `docs/examples/report.html`: a bundled run, as `arc report` writes
it. `python -m tests.docs` writes it anew where it says something else than it should.
"""

from __future__ import annotations

import base64
import gzip
import re
import shutil
import tempfile
from pathlib import Path

from arc_tui.places import fixtures
from replay import digests
from tests.spoken import spoken

FILE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "report.html"
RUN = "shop-many-wishes-v5-0"

_PACKED = re.compile(rb"(<script type=\"application/[\w.]+\" id=\"arc-[\w-]+\">)([\w+/=\s]+)(?=<)")


def make() -> bytes:
    """The example as the command writes it today."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shutil.copy(fixtures() / "traces" / f"{RUN}.jsonl", place)
        for words in (("import", f"{RUN}.jsonl"), ("report", RUN, "-o", "report.html")):
            made = spoken(*words, cwd=place, ARC_DB="arc.db", ARC_CONFIG_DIR=folder)
            assert made.code == 0, made.err
        return (place / "report.html").read_bytes()


def digest(page: bytes) -> str:
    """Of what a page says: what is packed in it may be packed otherwise by another zlib."""
    return digests.digest("report", _PACKED.sub(_unpack, page))


def _unpack(found: re.Match[bytes]) -> bytes:
    return found[1] + gzip.decompress(base64.b64decode(found[2]))


def write() -> bool:
    """Write the example where it is not what it should be; was it not?"""
    made = make()
    if FILE.exists() and digest(FILE.read_bytes()) == digest(made):
        return False
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(made)
    return True
