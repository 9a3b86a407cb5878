"""`python -m tests.docs [PAGE…] [--site FOLDER]`: writes what is generated, or builds the site."""

from __future__ import annotations

import argparse
from pathlib import Path

from tests.docs import ROOT, example, pages, rendered
from tests.docs.site import build


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    asked.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    asked.add_argument("--site", type=Path, metavar="FOLDER", help="build the site there")
    given = asked.parse_args()
    if given.site is not None:
        print(build(given.site))
        return
    for page in [page.resolve() for page in given.pages] or pages():
        text = page.read_text()
        if (now := rendered(text)) != text:
            page.write_text(now)
            print(page.relative_to(ROOT))
    if not given.pages and example.write():
        print(example.FILE.relative_to(ROOT))


if __name__ == "__main__":
    main()
