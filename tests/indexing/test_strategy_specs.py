"""Strategies and extractors as JSON: a specification restores the same object."""

import json

import pytest
from hypothesis import given, strategies as st

from airw.errors import ArgumentError, ChatUnavailable
from airw.indexing import (
    Chunked,
    Notes,
    Package,
    Skill,
    ThinDescription,
    WholeText,
    make_llm_synthesizer,
    strategy_from_spec,
    strategy_spec,
    with_synopsis,
)
from airw.links import MarkdownLinks, extractor_from, extractor_from_spec, extractor_spec

NAMES = st.text(min_size=1, max_size=5)
WINDOWS = st.integers(1, 2_000).flatmap(
    lambda size: st.fixed_dictionaries({"chunk_size": st.just(size), "overlap": st.integers(0, size - 1)})
)
FIELDS = st.fixed_dictionaries({}, optional={"text_key": NAMES | st.none(), "kind": NAMES})
DEPS = st.fixed_dictionaries({"embed_deps": st.booleans(), "deps_template": st.text(max_size=5).map("{deps}".__add__)})
STRATEGIES = st.one_of(
    st.just(Skill()),
    st.builds(lambda fields: WholeText(**fields), FIELDS),
    st.builds(lambda window, fields: Chunked(**window, **fields), WINDOWS, FIELDS),
    st.builds(lambda window: Notes(**window), WINDOWS),
    st.builds(lambda window, deps: Package(**window, **deps), WINDOWS, DEPS),
)
EXTRACTORS = st.builds(MarkdownLinks, fields=st.lists(NAMES, max_size=3), inline_type=NAMES)


@given(STRATEGIES)
def test_a_strategy_is_restored_from_its_specification(strategy):
    spec = json.loads(json.dumps(strategy_spec(strategy)))
    assert spec["name"] == type(strategy).__name__
    again = strategy_from_spec(spec)
    assert again == strategy
    assert again.id == strategy.id


@given(EXTRACTORS)
def test_an_extractor_is_restored_from_its_specification(extractor):
    again = extractor_from_spec(json.loads(json.dumps(extractor_spec(extractor))))
    assert again == extractor
    assert hash(again) == hash(extractor)
    assert again.id == extractor.id


class Own(Chunked):
    pass


@pytest.mark.parametrize(
    "strategy",
    [
        Chunked(max_tokens=9, tokenizer=lambda text: []),
        Notes(max_tokens=9, tokenizer=lambda text: []),
        Own(),
        None,
        "x",
    ],
)
def test_strategies_that_json_cannot_describe_have_no_specification(strategy):
    assert strategy_spec(strategy) is None
    assert extractor_spec(extractor_from(lambda artifact_id, fields: {}, id="mine-1")) is None


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"name": "ClaudeTurn"},
            "no strategy 'ClaudeTurn'; known: WholeText, FittedText, Chunked, Notes, Skill, Package",
        ),
        ({}, "known: WholeText"),
        (None, "strategy must be specified as"),
        ("Chunked", "strategy must be specified as"),
        ({"name": "Chunked", "params": [1]}, "strategy must be specified as"),
        ({"name": "Chunked", "params": {"size": 9}}, "strategy Chunked: .*'size'"),
        ({"name": "Chunked", "params": {"chunk_size": 0}}, "chunk_size must be a whole number of at least 1, not 0"),
        ({"name": "Chunked", "params": {"max_tokens": 9}}, "max_tokens and tokenizer need each other"),
    ],
)
def test_an_invalid_specification_is_an_error_with_the_reason(spec, why):
    with pytest.raises(ArgumentError, match=why):
        strategy_from_spec(spec)


def test_an_unknown_extractor_is_an_error_that_lists_the_available_ones():
    with pytest.raises(ArgumentError, match="no edge extractor 'CallableLinks'; known: MarkdownLinks"):
        extractor_from_spec({"name": "CallableLinks"})


def test_missing_parameters_have_their_defaults():
    assert strategy_from_spec({"name": "Package"}) == Package()
    assert extractor_from_spec({"name": "MarkdownLinks", "params": {}}) == MarkdownLinks()


CHAT = "http://localhost:1/v1#model"


@pytest.mark.parametrize("when", [None, ThinDescription(), ThinDescription(min_chars=9, field="about")])
def test_a_strategy_with_synopses_by_the_model_of_the_environment_is_restored(monkeypatch, when):
    monkeypatch.setenv("AIRW_CHAT", CHAT)
    strategy = with_synopsis(with_synopsis(Package()), synopsis_kind="about", when=when)
    spec = json.loads(json.dumps(strategy_spec(strategy)))
    assert strategy_from_spec(spec).id == strategy.id
    monkeypatch.setenv("AIRW_CHAT", CHAT + "-2")
    assert strategy_from_spec(spec).id != strategy.id
    monkeypatch.delenv("AIRW_CHAT")
    assert strategy_spec(strategy) is None
    with pytest.raises(ChatUnavailable):
        strategy_from_spec(spec)


def test_a_strategy_with_other_synopses_has_no_specification(monkeypatch):
    monkeypatch.setenv("AIRW_CHAT", CHAT)
    for strategy in [
        with_synopsis(Chunked(), synthesize=lambda artifact: ""),
        with_synopsis(Chunked(), synthesize=make_llm_synthesizer(model=f"{CHAT}-2")),
        with_synopsis(Chunked(), synthesize=make_llm_synthesizer(prompt="Shorter: {text}")),
        with_synopsis(Chunked(), synthesizer_id="mine"),
        with_synopsis(Chunked(), when=lambda artifact: True),
        with_synopsis(Own()),
    ]:
        assert strategy_spec(strategy) is None
