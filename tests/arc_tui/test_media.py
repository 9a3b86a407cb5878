"""What is shown instead of a picture: its type, size, pixels and digest, never its bytes."""

from __future__ import annotations

import struct
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arc_tui.views.media import described, media_of, pixels, without_bytes
from replay.messages import prose, results
from replay.trace import Message

PNG = b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", 640, 480) + bytes(40)
GIF = b"GIF89a" + struct.pack("<HH", 320, 200) + bytes(20)
JPEG = (
    b"\xff\xd8\xff\xe0" + struct.pack(">H", 16) + bytes(14)
    + b"\xff\xc0" + struct.pack(">HBHH", 17, 8, 30, 40) + bytes(20)
)  # fmt: skip
LOSSY = b"RIFF\0\0\0\0WEBPVP8 " + bytes(10) + struct.pack("<HH", 64, 48) + bytes(8)
LOSSLESS = b"RIFF\0\0\0\0WEBPVP8L" + bytes(5) + struct.pack("<I", 99 | 49 << 14) + bytes(8)
EXTENDED = b"RIFF\0\0\0\0WEBPVP8X" + bytes(8) + b"\x7f\x02\0\xdf\x01\0" + bytes(4)


def anthropic(body: bytes, type_: str = "image/png") -> dict[str, Any]:
    source = {"type": "base64", "media_type": type_, "data": b64encode(body).decode()}
    return {"type": "image", "source": source}


@pytest.mark.parametrize(
    ("body", "size"),
    [(PNG, (640, 480)), (GIF, (320, 200)), (JPEG, (40, 30)), (LOSSY, (64, 48)),
     (LOSSLESS, (100, 50)), (EXTENDED, (640, 480)), (b"BM" + bytes(60), None)],
)  # fmt: skip
def test_the_header_of_a_picture_says_how_large_it_is(
    body: bytes, size: tuple[int, int] | None
) -> None:
    assert pixels(body) == size


@given(
    st.sampled_from([PNG, GIF, JPEG, LOSSY, LOSSLESS, EXTENDED]), st.integers(0, 70), st.binary()
)
def test_a_header_that_ends_early_or_lies_is_met_with_a_size_or_none(
    body: bytes, kept: int, more: bytes
) -> None:
    found = pixels(body[:kept] + more)
    assert found is None or min(found) > 0


@pytest.mark.parametrize(
    "block",
    [
        anthropic(PNG),
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,"
                                            + b64encode(PNG).decode()}},
        {"type": "input_image", "image_url": "data:image/png;base64," + b64encode(PNG).decode()},
        {"type": "image", "image": "data:image/png;base64,"
                                   + urlsafe_b64encode(PNG).decode().rstrip("=")},
    ],
)  # fmt: skip
def test_a_picture_of_any_provider_is_told_by_type_size_and_digest(block: dict[str, Any]) -> None:
    media = media_of(block)
    assert media is not None
    assert (media.type, media.size, media.pixels) == ("image/png", len(PNG), (640, 480))
    assert "64 bytes · 640×480 pixels · sha256 " in media.line
    assert b64encode(PNG).decode()[:20] not in media.line


def test_what_is_elsewhere_or_masked_is_said_to_be() -> None:
    url = media_of({"type": "image_url", "image_url": {"url": "https://a.test/b.png"}})
    assert url is not None
    assert url.line == "[image · not recorded · source https://a.test/b.png]"
    masked = media_of({"type": "image", "source": {"data": "[[SECRET:x:00000000]]"}})
    assert masked is not None
    assert masked.line == "[image · content unreadable]"
    said = media_of({"type": "document", "source": {"type": "text", "data": "hello",
                                                    "media_type": "text/plain"}})  # fmt: skip
    assert said is not None
    assert said.size == 5


JSONS = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5) | st.sampled_from(["image", "base64"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "source", "data", "content", "url", "image_url"]), inner
        )
    ),
)


@given(st.dictionaries(st.sampled_from(["type", "source", "data", "image_url"]), JSONS), JSONS)
def test_whatever_a_block_is_made_of_it_is_told_or_left(block: dict[str, Any], other: Any) -> None:
    media = media_of({**block, "type": "image"})
    assert media is not None
    assert media.line.startswith("[image · ")
    without_bytes([block, other])
    message = Message(dialect="anthropic", body={"role": "user", "content": [block, other]})
    described(message)


def test_in_a_message_and_in_a_result_a_line_stands_for_a_picture() -> None:
    body = {
        "role": "user",
        "content": [
            {"type": "text", "text": "look"},
            anthropic(GIF, "image/gif"),
            {"type": "tool_result", "tool_use_id": "1", "content": [anthropic(PNG)]},
        ],
    }
    shown = described(Message(dialect="anthropic", body=body))
    assert prose(shown).startswith("look\n[image · image/gif · 30 bytes · 320×200 pixels")
    assert results(shown)[0].text.startswith("[image · image/png · 64 bytes")
    raw = msgspec.json.encode(without_bytes(body)).decode()
    assert b64encode(PNG).decode()[:16] not in raw
    assert "640×480" in raw
