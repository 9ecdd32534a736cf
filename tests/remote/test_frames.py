"""The events of a stream are read wherever its pieces are cut."""

import json
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from airw.protocols.wire import WireFault
from airw.remote.frames import Frame, FrameReader


@given(
    frames=st.lists(st.tuples(st.sampled_from(["hit", "edge"]), st.dictionaries(st.text(), st.text()))),
    cuts=st.lists(st.integers(0, 2_000)),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_frames_are_read_wherever_they_are_cut(frames, cuts, end):
    texts = [
        f"id: {at}{end}event: {kind}{end}data: {json.dumps(data)}{end}{end}" for at, (kind, data) in enumerate(frames)
    ]
    content = (f": {end}{end}" + "".join(texts)).encode()
    places = sorted({0, len(content), *(cut for cut in cuts if cut < len(content))})
    reader, found = FrameReader(), []
    for start, stop in pairwise(places):
        found += reader.feed(content[start:stop])
    assert found == [Frame(kind, json.dumps(data)) for kind, data in frames]


def test_lines_of_data_are_joined_and_an_event_without_data_is_none():
    assert FrameReader().feed(b"data: a\ndata:b\n\nevent: hit\n\nid: 3\n\n") == [Frame("message", "a\nb")]


def test_a_stream_that_is_no_text_is_refused():
    with pytest.raises(WireFault, match="not UTF-8"):
        FrameReader().feed(b"data: \xff\n")


@pytest.mark.slow
@pytest.mark.parametrize("piece", [b"x" * (1 << 20), b"data: " + b"x" * (1 << 20) + b"\n"])
def test_an_event_that_never_ends_is_refused_and_heartbeats_are_not(piece):
    reader = FrameReader()
    with pytest.raises(WireFault, match="an event of its stream has more than 67,108,864 bytes"):
        [reader.feed(piece) for _ in range(65)]
    reader = FrameReader()
    assert [reader.feed(b": " + piece[6:] + b"\n\n") for _ in range(65)] == [[]] * 65
