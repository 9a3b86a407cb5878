"""The site of `docs/`, built strictly: a link or anchor that leads nowhere ends the build."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_LOADED = re.compile(
    r"<(?:script|img|source|iframe|video)\b[^>]*?\bsrc=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|icon|preload|preconnect|dns-prefetch|modulepreload))"
    r"[^>]*?\bhref=[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|(?:url\(|@import )[\"']?((?:https?:)?//[^\"')\s]+)"
)


def build(folder: Path) -> Path:
    """Builds the site below `folder`, from copies there: nothing is written beside the pages.

    Raises RuntimeError with what the builder printed where a link leads nowhere.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(ROOT / "docs", folder / "docs", dirs_exist_ok=True)
    shutil.copy(ROOT / ".zensical.toml", folder)
    words = [sys.executable, "-m", "zensical", "build", "--strict", "-f", ".zensical.toml"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return folder / "site"


def foreign(site: Path) -> Iterator[tuple[str, str]]:
    """(page, address) of every script, style, font and picture that comes from another host."""
    for page in sorted(site.rglob("*")):
        if page.suffix in {".html", ".css", ".svg"}:
            for found in _LOADED.finditer(page.read_text()):
                yield page.name, next(filter(None, found.groups()))
