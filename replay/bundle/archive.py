"""Named bytes as one zip file, and back.

What is written depends on the names and the bytes alone: no clock, no owner, one order. What is
read may come from anyone: few members, each no larger than it may be, and never a path on disk.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping

from replay.errors import ArcError

MAX_FILE_BYTES = 256 * 1024 * 1024
MAX_MEMBERS = 16

_ENTRY = b"PK\x01\x02"
"""What an entry of a zip's directory begins with."""

_TIME = (1980, 1, 1, 0, 0, 0)
_UNIX, _OWNER_ONLY = 3, 0o100600 << 16
_ENCRYPTED = 0x1
_BROKEN = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, NotImplementedError)
"""What reading a broken zip may raise."""


class BadBundle(ArcError):
    """A bundle that cannot be read, written or run again; the message names the member."""


def packed(members: Mapping[str, bytes]) -> bytes:
    """A zip of the members, in their order."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system, entry.external_attr = _UNIX, _OWNER_ONLY
            made.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=9)
    return out.getvalue()


class Archive:
    """A zip opened for reading. Raises BadBundle where it is none, or holds too much."""

    def __init__(self, data: bytes) -> None:
        # A directory of a million entries is small on disk and large in memory: count, then parse.
        if data.count(_ENTRY) > 2 * MAX_MEMBERS:
            raise BadBundle("holds more than a bundle does")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except _BROKEN as error:
            raise BadBundle("is no bundle: not a whole zip file") from error
        self.names = tuple(entry.filename for entry in self._zip.infolist())
        twice = next((name for name in self.names if self.names.count(name) > 1), None)
        if twice is not None:
            raise BadBundle(f"{twice} stands in it twice")

    def read(self, name: str, limit_bytes: int) -> bytes:
        """A member that is no larger than the limit, however small it is packed."""
        if name not in self.names:
            raise BadBundle(f"{name} is missing")
        entry = self._zip.getinfo(name)
        plain = entry.compress_type in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED)
        if entry.flag_bits & _ENCRYPTED or not plain:
            raise BadBundle(f"{name} is encrypted, or packed in a way that no bundle is")
        try:
            with self._zip.open(entry) as stream:
                data = stream.read(limit_bytes + 1)
        except _BROKEN as error:
            raise BadBundle(f"{name} is damaged: it cannot be unpacked") from error
        if len(data) > limit_bytes:
            raise BadBundle(f"{name} is larger than the {limit_bytes} bytes it may have")
        return data
