"""Cases of queries with known answers, and their files."""

import json
import math

import pytest
from hypothesis import given, strategies as st

from airw.errors import ArgumentError, ArgumentKindError, SourceError
from airw.evaluation import DiscoveryCase, load_cases, save_cases, to_qrels

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
CASES = st.builds(
    DiscoveryCase,
    TEXTS.filter(str.strip),
    st.lists(TEXTS, max_size=3).map(tuple),
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.dictionaries(TEXTS, JSON, max_size=3),
)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "cases.jsonl"


class TestACase:
    @given(CASES)
    def test_survives_a_round_trip_through_json(self, case):
        assert DiscoveryCase.from_dict(json.loads(json.dumps(case.to_dict()))) == case

    def test_without_gold_expects_no_answer(self):
        assert DiscoveryCase("q").gold_is_none
        assert not DiscoveryCase("q", ("a",)).gold_is_none

    @pytest.mark.parametrize("gold", ["a", ["a"], ("a",)])
    def test_accepts_one_id_or_several_as_gold(self, gold):
        assert DiscoveryCase("q", gold).gold == DiscoveryCase.from_dict({"query": "q", "gold": gold}).gold == ("a",)

    @pytest.mark.parametrize("gold", [{"a": 2, "b": 0, "c": -1, "d": 0.5}, {"d": 1, "a": 1.0, "b": 0.0}])
    def test_takes_the_graded_judgements_above_zero_as_gold(self, gold):
        """TREC, BEIR and ranx grade what is not relevant 0, and TREC spam below that."""
        case = DiscoveryCase("q", gold)
        assert sorted(case.gold) == ["a", "d"]
        assert DiscoveryCase.from_dict({"query": "q", "gold": gold}) == case
        assert to_qrels([case])[1] == {"q00000": {"a": 1.0, "d": 1.0}}

    @pytest.mark.parametrize("gold", [{"a": 0}, {"a": -1, "b": 0.0}, {}])
    def test_whose_judgements_are_all_zero_has_no_answer(self, gold):
        assert DiscoveryCase("q", gold).gold_is_none

    @pytest.mark.parametrize("grade", [math.nan, math.inf, "1", None, True, [1]])
    def test_refuses_a_grade_that_is_no_number(self, grade):
        with pytest.raises(ArgumentError, match="the grade of 'b' in gold must be a finite number"):
            DiscoveryCase("q", {"a": 1, "b": grade})

    @pytest.mark.parametrize("gold", [None, "", []])
    def test_with_an_empty_gold_in_json_has_none(self, gold):
        assert DiscoveryCase.from_dict({"query": "q", "gold": gold}).gold_is_none

    def test_writes_only_the_fields_that_are_set(self):
        assert DiscoveryCase("q").to_dict() == {"query": "q", "gold": []}
        whole = DiscoveryCase("q", ("a",), "notes", "a", {"hard": {1}})
        assert whole.to_dict() == {
            "query": "q",
            "gold": ["a"],
            "corpus": "notes",
            "source_id": "a",
            "metadata": {"hard": [1]},
        }

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ({"query": 3}, "query must be a string"),
            ({"query": "q", "gold": 3}, "gold must be a list of strings"),
            ({"query": "q", "gold": [3]}, "gold must be a list of strings"),
            ({"query": "q", "gold": {3: 1}}, "gold must be a list of strings"),
            ({"query": "q", "gold": False}, "gold must be a list of strings"),
            ({"query": "q", "corpus": 3}, "corpus must be a string"),
            ({"query": "q", "source_id": ["a"]}, "source_id must be a string"),
            ({"query": "q", "metadata": "hard"}, "metadata must be a mapping"),
            ({"gold": "a"}, "an object with a query"),
            (["q"], "an object with a query"),
        ],
    )
    def test_refuses_invalid_json(self, wrong, said):
        with pytest.raises(ArgumentError, match=said):
            DiscoveryCase.from_dict(wrong)

    def test_with_a_misspelt_gold_is_refused_instead_of_read_without_gold(self):
        with pytest.raises(ArgumentError, match="no field 'golds', only query, gold, corpus, source_id, metadata"):
            DiscoveryCase.from_dict({"query": "q", "golds": ["a"]})

    def test_with_a_gold_that_is_no_id_is_refused(self):
        with pytest.raises(ArgumentKindError):
            DiscoveryCase("q", gold=3)


class TestAFile:
    @given(cases=st.lists(CASES, max_size=5), meta=st.none() | st.dictionaries(TEXTS, JSON, max_size=2))
    def test_returns_the_saved_cases_in_their_order(self, tmp_path_factory, cases, meta):
        file = tmp_path_factory.mktemp("cases") / "new" / "cases.jsonl"
        save_cases(iter(cases), file, meta=meta)
        assert load_cases(file) == cases

    def test_may_begin_with_metadata_about_its_cases(self, file):
        save_cases([DiscoveryCase("q")], str(file), meta={"corpus": "notes"})
        assert json.loads(file.read_text().splitlines()[0]) == {"__meta__": {"corpus": "notes"}}

    def test_may_have_a_byte_order_mark_blank_lines_and_crlf(self, file):
        file.write_bytes(b'\xef\xbb\xbf{"query": "caf\xc3\xa9", "gold": "a"}\r\n\r\n{"query": "a\xe2\x80\xa8b"}')
        assert load_cases(file) == [DiscoveryCase("café", ("a",)), DiscoveryCase("a\u2028b")]

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            (b"{", "line 3, is not JSON in UTF-8"),
            (b'{"query": "caf\xe9"}', "line 3, is not JSON in UTF-8"),
            (b"[" * 100_000, "line 3, is not JSON in UTF-8"),
            (b'"q"', "line 3: a case must be an object with a query, not 'q'"),
            (b'{"query": "q", "gold": 3}', "line 3: gold must be"),
            (b'{"query": ""}', "line 3: query is blank"),
            (b'{"query": " ", "gold": "a"}', "line 3: query is blank"),
        ],
    )
    def test_with_an_invalid_line_is_an_error_with_file_name_and_line(self, file, line, said):
        file.write_bytes(b'{"query": "good"}\n\n' + line)
        with pytest.raises(ArgumentError, match=f"^cases.jsonl, {said}") as caught:
            load_cases(file)
        assert "\n" not in str(caught.value)

    def test_that_cannot_be_read_or_written_is_named_in_the_error(self, file, tmp_path):
        with pytest.raises(SourceError, match=r"cannot read .*cases\.jsonl"):
            load_cases(file)
        with pytest.raises(SourceError, match="cannot write"):
            save_cases([], tmp_path)

    def test_keeps_its_content_if_a_case_cannot_be_written(self, file):
        save_cases([DiscoveryCase("q")], file)
        with pytest.raises(AttributeError):
            save_cases([DiscoveryCase("r"), "no case"], file)
        assert load_cases(file) == [DiscoveryCase("q")]
