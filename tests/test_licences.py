"""Everything that is installed with `arc` may be used and passed on as `arc` itself may be."""

from __future__ import annotations

import re

from tests.licences import licences

PERMISSIVE = re.compile(
    r"(MIT(-0)?|BSD|[23]-Clause BSD|BSD-[23]-Clause|Apache|ISC|PSF-2\.0|zlib|Public Domain)"
    r"[\w.,() -]*"
)


def test_every_dependency_has_a_permissive_licence() -> None:
    found = licences()
    assert {"anthropic", "msgspec", "rich", "sqlite-utils", "textual", "cryptography"} <= set(found)
    others = {
        name: licence
        for name, (licence, _) in found.items()
        if not all(PERMISSIVE.fullmatch(each) for each in re.split(r" (?:AND|OR) ", licence))
    }
    assert others == {}
