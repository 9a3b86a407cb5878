"""A source as an ordinary file, for readers that need a path: databases and tables of columns are
not read from their beginning to their end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from replay import files
from replay.errors import BadTrace
from replay.formats.intake import MAX_DOCUMENT_BYTES, Source

_CHUNK_BYTES = 1024 * 1024


@contextmanager
def plain_file(source: Source, magic: bytes) -> Iterator[Path]:
    """The path of the source where its file begins with `magic`; else that of a decompressed
    copy, which is gone afterwards. Raises BadTrace where the copy would be larger than 1 GiB."""
    with source.packed() as opened:
        if opened.read(len(magic)) == magic:
            yield source.path
            return
    with files.private_folder() as folder:
        path = files.new(folder / "copy")
        with path.open("wb") as copy:
            for chunk in _chunks(source):
                copy.write(chunk)
        yield path


def _chunks(source: Source) -> Iterator[bytes]:
    size = 0
    try:
        with source.open() as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                size += len(chunk)
                if size > MAX_DOCUMENT_BYTES:
                    raise BadTrace(
                        source.display, "", "is larger than 1 GiB unpacked", "unpack it first"
                    )
                yield chunk
    except (OSError, EOFError, ValueError) as error:
        raise BadTrace(source.display, "", f"ends before its end: {error}") from error
