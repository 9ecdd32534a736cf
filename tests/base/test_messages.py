"""Foreign texts in messages: what could act on a terminal or a page becomes visible."""

import json
import unicodedata

import pytest
from hypothesis import given, strategies as st

from airw._base.json import dump_json
from airw._base.messages import error_text, escape_controls, one_line, short_repr

ACTING = {
    "escape": "\x1b",
    "bell": "\a",
    "delete": "\x7f",
    "C1": "\x9b",
    "next line": "\x85",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "override": "\u202e",
    "isolate": "\u2066",
    "right-to-left mark": "\u200f",
    "Arabic letter mark": "\u061c",
    "zero width space": "\u200b",
    "byte order mark": "\ufeff",
    "tag": "\U000e0041",
    "surrogate": "\ud800",
}


@pytest.mark.parametrize("what", ACTING)
def test_each_character_that_acts_becomes_visible(what):
    shown = escape_controls(f"a{ACTING[what]}b", multiline=True)
    assert shown.isascii()
    assert shown.isprintable()
    assert shown == escape_controls(f"a{ACTING[what]}b")
    assert json.loads(f'"{shown}"') == f"a{ACTING[what]}b"


@given(st.text(st.characters(exclude_categories=())))
def test_a_line_is_one_line_without_controls_and_a_text_keeps_its_lines(text):
    line, lines = escape_controls(text), escape_controls(text, multiline=True)
    assert len(line.splitlines()) <= 1
    assert {unicodedata.category(char) for char in line}.isdisjoint({"Cc", "Cs", "Zl", "Zp"})
    assert "\r" not in lines.replace("\r\n", "\n")
    assert escape_controls(lines, multiline=True) == lines
    assert [each.encode() for each in lines.split("\n")]
    assert lines.count("\n") == text.count("\n")


def test_what_people_write_stays():
    text = "naïve 日本語 👩\u200d💻 \u0645\u06cc\u200c\u062e \u00a0 soft\u00adhyphen שלום"
    assert escape_controls(text) == text


@given(
    st.recursive(
        st.text(st.characters(exclude_categories=())) | st.integers() | st.none(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner),
    )
)
def test_json_reads_back_as_the_same_value(value):
    text = dump_json(value)
    assert text == escape_controls(text)
    assert json.loads(text) == value


def test_messages_use_it():
    class Odd:
        def __repr__(self):
            return "\x1b[2J\u202e\nodd"

    assert one_line("a\x1b\n\u202e b") == r"a\u001b \u202e b"
    assert short_repr(Odd()) == r"\u001b[2J\u202e odd"
    assert error_text(ValueError("\x1b]0;owned\a")) == r"ValueError: \u001b]0;owned\u0007"


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=300) | st.dictionaries(st.text(max_size=3), inner) | st.tuples(inner),
    )
)
def test_a_short_repr_is_the_beginning_of_the_whole(value):
    whole = one_line(repr(value))
    assert short_repr(value)[:199] == whole[:199]


def test_a_short_repr_looks_at_few_items():
    class Loud:
        shown = 0

        def __repr__(self):
            Loud.shown += 1
            return "loud"

    assert len(short_repr({"a": [[Loud()] * 10_000] * 10_000})) == 200
    assert Loud.shown <= 200
    endless = []
    endless.append(endless)
    assert short_repr(endless).startswith("[[[")
