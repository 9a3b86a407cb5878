"""Small files that unpack to much, share their bytes or name what is not theirs: a sentence each,
after no more work than their size is worth, and nothing is ever unpacked to a path."""

from __future__ import annotations

import gzip
import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from backports import zstd

from replay.errors import BadTrace
from replay.formats import inspect, load, source
from replay.formats.otlp import protobuf
from replay.formats.otlp.protobuf import Broken
from replay.formats.source import Source, Tally, most_unpacked
from tests.replay.test_formats import CHAT
from tests.replay.test_inspect import sample, write_eval

PACKERS: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "zst": zstd.compress}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is always allowed is a megabyte here, so that a bomb need not be a large one."""
    monkeypatch.setattr(source, "_ALWAYS_UNPACKED", 1 << 20)


def counted(source: Source) -> tuple[int, str]:
    """The bytes that could be read, and what was said then."""
    found = 0
    try:
        for _, line in source.lines():
            found += len(line)
    except BadTrace as error:
        return found, str(error)
    return found, ""


@pytest.mark.slow
@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("line", [b"\n", b'{"a": "' + b"0" * (1 << 18) + b'"}\n'])
def test_a_file_that_unpacks_to_more_than_it_may_is_read_no_further(
    packer: str, line: bytes, tmp_path: Path
) -> None:
    path = tmp_path / f"run.jsonl.{packer}"
    path.write_bytes(PACKERS[packer](line * ((16 << 20) // len(line))))
    source = Source(path)
    read, said = counted(source)
    assert read <= most_unpacked(path.stat().st_size)
    assert "decompresses to more than 500 times its size" in said
    with pytest.raises(BadTrace, match="decompresses to more"):
        source.read()


@pytest.mark.parametrize("packer", PACKERS)
def test_one_line_without_end_is_a_sentence(packer: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.jsonl.{packer}"
    path.write_bytes(PACKERS[packer](b"[" * (32 << 20)))
    with pytest.raises(BadTrace):
        list(load(Source(path), Tally()))


@pytest.mark.parametrize("packer", PACKERS)
def test_a_packed_run_that_repeats_itself_is_read(packer: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.json.{packer}"
    long = [{"role": "user", "content": "the same again. " * 40_000}, *CHAT[1:]]
    path.write_bytes(PACKERS[packer](json.dumps(long).encode()))
    assert list(load(Source(path), Tally()))


def test_a_packed_bomb_inside_a_packed_bomb_is_no_run(tmp_path: Path) -> None:
    path = tmp_path / "run.json.gz"
    path.write_bytes(gzip.compress(gzip.compress(b"[" * (16 << 20))))
    with pytest.raises(BadTrace):
        list(load(Source(path), Tally()))


def test_a_message_that_unpacks_to_more_than_it_may_is_broken() -> None:
    with pytest.raises(Broken, match="decompresses to more"):
        protobuf._decompressed(zstd.compress(b"\0" * (8 << 20)))


# --- zips


def read_log(path: Path) -> tuple[list[object], Tally]:
    tally = Tally()
    return list(inspect.read(Source(path), tally)), tally


def test_a_member_packed_smaller_than_any_run_is_not_unpacked(tmp_path: Path) -> None:
    bomb = json.dumps(sample([]) | {"metadata": {"a": "0" * (4 << 20)}})
    members = {"samples/a_epoch_1.json": bomb, "samples/b_epoch_1.json": sample([])}
    batches, tally = read_log(write_eval(tmp_path, members, method=8))
    assert len(batches) == 1
    assert [each.where for each in tally.problems] == ["samples/a_epoch_1.json"]
    assert "compressed more than any run is" in tally.problems[0].why


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    """As in bombs without nesting: the directory names the same bytes many times."""
    path = write_eval(tmp_path, {f"samples/{n}_epoch_1.json": sample([]) for n in range(5)})
    data = bytearray(path.read_bytes())
    entries = list(_entries(bytes(data)))
    (first,) = struct.unpack_from("<L", data, entries[1] + 42)
    for entry in entries[2:]:
        struct.pack_into("<L", data, entry + 42, first)
    path.write_bytes(data)
    with pytest.raises(BadTrace, match="overlap"):
        read_log(path)


def _entries(data: bytes) -> Iterator[int]:
    at = data.find(b"PK\x01\x02")
    while at >= 0:
        yield at
        at = data.find(b"PK\x01\x02", at + 1)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_stands_twice_is_told(tmp_path: Path) -> None:
    path = write_eval(tmp_path, {"samples/a_epoch_1.json": sample([])})
    with zipfile.ZipFile(path, "a") as opened:
        opened.writestr("samples/a_epoch_1.json", json.dumps(sample([])))
    batches, tally = read_log(path)
    assert len(batches) == 1
    assert tally.problems[0].why == "contains 1 names more than once; the last is used"


@pytest.mark.parametrize(
    "name",
    ["../../etc/a_epoch_1.json", "/etc/a_epoch_1.json", "C:\\a_epoch_1.json", "a\0b_epoch_1.json"],
)
def test_what_a_member_is_called_is_no_path(name: str, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    path = write_eval(inside, {"samples/" + name: sample([]), "samples/b_epoch_1.json": sample([])})
    before = sorted(tmp_path.rglob("*"))
    batches, _ = read_log(path)
    assert batches
    assert sorted(tmp_path.rglob("*")) == before


def test_a_link_in_a_zip_is_its_text(tmp_path: Path) -> None:
    path = write_eval(tmp_path, {"samples/b_epoch_1.json": sample([])})
    link = zipfile.ZipInfo("samples/a_epoch_1.json")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(path, "a") as opened:
        opened.writestr(link, "/etc/passwd")
    batches, tally = read_log(path)
    assert len(batches) == 1
    assert tally.problems[0].where == "samples/a_epoch_1.json"


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("packer", PACKERS)
def test_a_packed_file_that_was_cut_says_so(packer: str, kept: float, tmp_path: Path) -> None:
    path = tmp_path / f"run.json.{packer}"
    data = PACKERS[packer](json.dumps(CHAT).encode())
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(BadTrace):
        list(load(Source(path), Tally()))


def test_the_whole_of_a_file_is_handed_on_however_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    said = bytes(range(256)) * 5_000
    path.write_bytes(gzip.compress(said))
    with Source(path).open() as stream:
        assert stream.read(10) + stream.readline() + stream.read() == said
    assert Source(path).read() == said
