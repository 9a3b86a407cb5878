"""One export over the wire: read, or refused; and what an exporter is told."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.formats.otlp.exports import in_json, in_protobuf, refused_in_protobuf
from replay.formats.otlp.protobuf import Broken
from replay.formats.source import Tally


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_records_or_refused(body: bytes) -> None:
    for read in (in_json, in_protobuf):
        with suppress(Broken):
            assert isinstance(read(body, Tally()), list)


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["spans", "scopeSpans", "resource", "attributes", "spanId", "key"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["resourceSpans", "resourceLogs"]), _values))
def test_an_export_of_any_shape_is_read_or_refused(value: dict[str, object]) -> None:
    with suppress(Broken):
        assert isinstance(in_json(msgspec.json.encode(value), Tally()), list)


def test_nothing_is_an_export_of_nothing() -> None:
    assert in_protobuf(b"", Tally()) == []
    assert in_json(b"{}", Tally()) == []
    with pytest.raises(Broken):
        in_json(b"", Tally())


def test_a_refusal_reads_as_a_status() -> None:
    status_pb2 = pytest.importorskip("google.rpc.status_pb2", reason="needs googleapis types")
    found = status_pb2.Status.FromString(refused_in_protobuf("no list " * 40))
    assert (found.code, found.message) == (3, "no list " * 40)
