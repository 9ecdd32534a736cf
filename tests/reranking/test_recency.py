"""Newer documents before older ones, by `boost=recency(...)` at every door."""

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from airw import build, discover, from_mapping, search, traverse
from airw.cli import main
from airw.discovery import FederatedCorpus
from airw.errors import ArgumentError, ArgumentKindError
from airw.policies import LinkWalk
from airw.remote import RemoteCorpus
from airw.reranking import recency, resolve_boost
from airw.serving import app
from airw.stores import MemoryStore
from airw.values import SearchHit
from tests.support.agents import ask, connect
from tests.support.served import client
from tests.support.serving import serve

NOW = datetime(2026, 6, 1, tzinfo=UTC)
SPEC = "recency:date:90d"


def hit(value, score=0.8):
    return SearchHit("a", "document", score, "", {} if value is ... else {"date": value})


def score_of(value, score=0.8, half_life="90d", weight=1):
    """Return the score after the boost."""
    return score + recency("date", half_life=half_life, weight=weight, now=NOW)(hit(value, score))


@pytest.mark.parametrize(
    "value",
    [
        "2026-03-03",
        "20260303",
        "2026-03-03T00:00:00Z",
        " 2026-03-03 02:00+02:00 ",
        "2026-03-03t00:00:00",
        date(2026, 3, 3),
        datetime(2026, 3, 3),  # noqa: DTZ001 - without a zone, it is UTC
        datetime(2026, 3, 3, 14, tzinfo=timezone(timedelta(hours=14))),
        1_772_496_000,
        1_772_496_000.0,
    ],
)
def test_age_takes_half_of_the_weight_after_one_half_life(value):
    assert score_of(value) == pytest.approx(0.4, rel=1e-4)
    assert score_of(value, weight=0.5) == pytest.approx(0.6, rel=1e-4)
    assert score_of(value, score=-0.8) == pytest.approx(-1.2, rel=1e-4)


@pytest.mark.parametrize("value", ["2026-06-01", "2030-01-01", "9999-12-31T23:59:59-12:00", 4e12])
def test_a_date_in_the_future_counts_as_now(value):
    assert score_of(value) == 0.8


@pytest.mark.parametrize(
    "value", [..., None, "", "soon", "2026-13-01", "0000-01-01", True, math.nan, math.inf, 10**400, [2026], {"a": 1}]
)
def test_a_hit_without_a_date_is_as_good_as_one_that_is_one_half_life_old(value):
    assert score_of(value) == pytest.approx(0.4)


def test_an_old_answer_stays_above_a_new_text_that_is_none():
    boost = recency("date", half_life="1d", now=NOW)
    answer, other = hit("2001-01-01", 0.5), hit("2026-06-01", 0.24)
    assert answer.score + boost(answer) > other.score + boost(other)


def test_a_year_and_a_month_count_from_their_first_day():
    assert score_of("2026") == score_of(2026) == score_of("2026-01") == score_of("2026-01-01")
    assert score_of("2026-03") == score_of("2026-03-01") > score_of(2026)


@pytest.mark.parametrize(
    ("half_life", "days"),
    [("90d", 90), ("12h", 0.5), ("2w", 14), ("1y", 365.25), ("1.5 d", 1.5), ("90D", 90), (timedelta(days=3), 3)],
)
def test_a_half_life_is_hours_days_weeks_or_years(half_life, days):
    then = NOW - timedelta(days=days)
    assert score_of(then, half_life=half_life) == pytest.approx(0.4)
    assert score_of(NOW - timedelta(days=2 * days), half_life=half_life) == pytest.approx(0.2)


@given(st.floats(-10, 10), st.integers(0, 3000), st.integers(0, 3000))
def test_the_newer_of_two_equal_hits_is_never_worse_and_nothing_gains(score, one, other):
    older, newer = (score_of(NOW - timedelta(days=days), score) for days in sorted((one, other), reverse=True))
    assert older <= newer <= score


def test_by_default_now_is_the_time_of_the_search():
    boost = recency("date", half_life="1h", weight=1)
    assert hit(...).score + boost(hit(datetime.now(UTC) - timedelta(hours=1))) == pytest.approx(0.4, rel=1e-3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"field": ""}, "field must be the name of a metadata field, not ''"),
        ({"field": 3}, "field must be the name of a metadata field, not 3"),
        ({"half_life": 90}, "half_life must be a time such as '90d', '12h', '2w' or '1y', not 90"),
        ({"half_life": "90"}, "half_life must be"),
        ({"half_life": "0d"}, "half_life must be"),
        ({"half_life": "-1d"}, "half_life must be"),
        ({"half_life": "9" * 400 + "d"}, "half_life must be"),
        ({"half_life": timedelta()}, "half_life must be"),
        ({"weight": 1.5}, "weight must be a finite number from 0 to 1, not 1.5"),
        ({"now": "soon"}, "now must be a datetime, not 'soon'"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused(options, said):
    with pytest.raises(ArgumentError, match=said):
        recency(**{"field": "date", "half_life": "90d", **options})


def test_a_specification_names_field_and_half_life():
    assert resolve_boost(SPEC) == recency("date", half_life="90d")
    assert resolve_boost("recency:meta:date:2w") == recency("meta:date", half_life="2w")
    assert resolve_boost(None) is None
    assert resolve_boost(len) is len


@pytest.mark.parametrize("spec", ["recency", "recency:90d", "recency::90d", "age:date:90d", "recency:date:soon", ""])
def test_another_text_is_no_boost(spec):
    with pytest.raises(ArgumentError):
        resolve_boost(spec)
    with pytest.raises(ArgumentKindError, match=r"a function of a hit, or 'recency:<field>:<half-life>', not 0\.1"):
        resolve_boost(0.1)


# --- the doors --------------------------------------------------------------------------------------------------------

TEXT = "rotate the signing keys"
NOTES = {
    "old": {"text": TEXT, "date": "2001-01-01"},
    "undated": {"text": TEXT},
    "today": {"text": TEXT, "date": datetime.now(UTC).isoformat()},
}
ORDER = ["today", "undated", "old"]
OPTIONS = {"query": "signing keys", "k": 3}


def notes(name="notes", texts=NOTES):
    fill = {f"other{at}": {"text": f"bread number {at}"} for at in range(9)}
    return build(from_mapping({**texts, **fill}, name=name, embedder="light"), store=MemoryStore())


def ids_of(hits):
    return [each["artifact_id"] if isinstance(each, dict) else each.artifact_id for each in hits]


@pytest.mark.parametrize("boost", [recency("date", half_life="90d"), SPEC], ids=["function", "text"])
@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
async def test_a_search_and_a_discovery_prefer_the_newer(boost, mode):
    async with notes() as corpus:
        plain = ids_of(await search(corpus, "signing keys", k=3, mode=mode))
        assert (
            sorted(plain)
            == sorted(ORDER)
            != ORDER
            == ids_of(await search(corpus, "signing keys", k=3, mode=mode, boost=boost))
        )
        assert ids_of(await corpus.search("signing keys", k=3, mode=mode, boost=boost)) == ORDER
        result = await discover(corpus, "signing keys", mode=mode, boost=boost, strategy="top_k", max_k=3)
        assert result.ids == ORDER
        assert (await discover(corpus, "signing keys", mode=mode, boost=boost)).ids[0] == "today"
        assert (await discover(corpus, "a winter in Rome", mode="lexical", boost=boost)).ids == []


async def test_a_discovery_in_several_corpora_prefers_the_newer():
    parts = [{name: NOTES[name]} for name in ("old", "today")]
    async with notes("one", parts[0]) as one, notes("two", parts[1]) as two:
        for corpora in ([one, two], [two, one]):
            result = await discover(corpora, "signing keys", boost=SPEC, strategy="top_k", max_k=2)
            assert result.ids == ["today", "old"]
        hits = await search(FederatedCorpus([one, two]), "signing keys", k=2, boost=SPEC)
        assert ids_of(hits) == ["today", "old"]


async def test_over_http_with_a_text_and_on_another_machine():
    async with notes() as corpus, client(app([corpus])) as asking:
        answer = await asking.post("/search", json={"corpus": "notes", **OPTIONS, "boost": SPEC})
        assert ids_of(answer.json()["hits"]) == ORDER
        selection = {"strategy": "top_k", "max_k": 3}
        answer = await asking.post("/discover", json={"corpus": "notes", **OPTIONS, "boost": SPEC, **selection})
        assert ids_of(answer.json()["results"]) == ORDER
        for wrong in ("recency:date", "recency:date:90", 3, {"recency": "date"}):
            answer = await asking.post("/search", json={"corpus": "notes", **OPTIONS, "boost": wrong})
            assert answer.status_code == 400
    async with notes() as corpus:
        with serve(app([corpus])) as server:
            async with RemoteCorpus(server.url, "notes") as remote:
                for boost in (SPEC, recency("date", half_life="90d")):
                    assert ids_of(await remote.search("signing keys", k=3, boost=boost)) == ORDER


async def test_over_mcp_with_a_text():
    async with notes() as corpus, connect(corpus) as agent:
        answer = await ask(agent, "discover", query="signing keys", boost=SPEC)
        assert answer["hits"][0]["id"] == "today"


@pytest.mark.asyncio_only
def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("AIRW_HOME", str(tmp_path / "home"))
    (tmp_path / "notes").mkdir()
    for name, fields in NOTES.items():
        dated = f"date: {fields['date']}\n" if "date" in fields else ""
        (tmp_path / "notes" / f"{name}.md").write_text(f"---\ntitle: Note\n{dated}---\n{TEXT}\n", encoding="utf-8")
    assert main(["build", str(tmp_path / "notes"), "--embedder", "light"]) == 0
    capsys.readouterr()
    more = ["--format", "json", "--boost", SPEC]
    assert main(["search", "notes", "signing keys", *more]) == 0
    hits = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["artifact_id"] for each in hits] == [f"{name}.md" for name in ORDER]
    assert main(["discover", "signing keys", "-c", "notes", "--strategy", "top_k", *more]) == 0
    assert "today.md" in capsys.readouterr().out.splitlines()[1]
    assert main(["search", "notes", "signing keys", "--boost", "newest"]) == 2
    assert "recency:" in capsys.readouterr().err


async def test_walks_have_no_boost():
    async with notes() as corpus:
        with pytest.raises(TypeError, match="boost"):
            traverse("signing keys", corpus, policy=LinkWalk(boost=SPEC))
