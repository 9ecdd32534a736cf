"""Words of texts on a PostgreSQL server: BM25 over a row for each word of a record.

The weight of a word follows from the number of records with it. It is computed here, as the logarithms of two machines
may differ in their last bits, and scores are those of the other homes to the last bit. So a search guesses that all
numbers are still as they were seen last. Its answer tells the present ones, and after a wrong guess it asks again.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np

from airw._base.concurrency import in_thread, offload_if
from airw._base.messages import short_repr
from airw.protocols import Rank, TextLanguage
from airw.stores._stored_values import DamagedValue, check_types, detect_damage
from airw.stores.postgres._catalog import BEGIN_SNAPSHOT
from airw.stores.postgres._field_json import to_fields
from airw.stores.postgres._filter_sql import Parameters
from airw.stores.postgres._inserting import insert_rows
from airw.stores.postgres._records import MOST, list_conditions
from airw.stores.postgres._schema import UPGRADES, VERSION, quote
from airw.stores.postgres._vectors import rank as rank_vectors
from airw.values import Analyser, Contains, Language, Ranking, TermCounts, check_language, check_term_counts, formula_of
from airw.values.analysers import EARLIER_LANGUAGES, LANGUAGES
from airw.values.term_counts import K1, B, weigh_word

if TYPE_CHECKING:
    from asyncpg import Connection

_MANY_LETTERS = 5_000  # of queries, that take about a millisecond to analyse
_LONGEST_KEY = 500  # letters of a word that an index contains as they are
_MOST_KNOWN = 1_000  # words
_MOST_COUNTED = 1 << 53  # records or words
# How format 1 names languages.
_FORMER_NAMES: Mapping[str | None, Language | None] = {
    "en, words with marks": "en",
    "words with marks": None,
    "en": "en-unicode61",
    None: "unicode61",
}
_PAGE = 1_000  # texts that are indexed again at a time

# The operations of `factors_of`, in the same order.
_FACTOR = f"""(count::float8 * {K1 + 1}::float8
    / (count::float8 + {K1}::float8 * ({1 - B}::float8 + {B}::float8 * length::float8 / {{average}})))"""
_STATE = """language, records, words, array(
        SELECT (SELECT count(*) FROM posting WHERE posting.word = asked.word)
        FROM unnest({words}) WITH ORDINALITY AS asked (word, place) ORDER BY place
    ) FROM (SELECT) AS one LEFT JOIN texts ON true"""
_WITH_ALL = """SELECT number, artifact_id, length, text FROM record WHERE number IN (
        SELECT number FROM posting WHERE word = ANY ($1::text[]) GROUP BY number HAVING count(*) = $2::bigint
    )"""
_WITH_BEGINNING = """SELECT number, min(artifact_id), sum(count)::bigint, min(length) FROM posting
    WHERE word BETWEEN $1::text AND $2::text AND word <> ALL ($3::text[]) GROUP BY number"""
# A text that has these letters, or perhaps others than those of ASCII.
_WITH_ANY = r"""SELECT number, artifact_id, length, text FROM record WHERE number IN (
        SELECT number FROM posting WHERE word = ANY ($1::text[])
    ) AND (encode(text, 'escape') ILIKE $2::text OR encode(text, 'escape') LIKE '%\\%')"""
_RECORDS = """SELECT artifact_id, number, text FROM record WHERE number > $1 ORDER BY number LIMIT $2"""
_METADATA = "SELECT artifact_id, number, metadata::text FROM record WHERE number > $1 ORDER BY number LIMIT $2"
_SET_FIELDS = """
    UPDATE record SET fields = new.fields::jsonb FROM unnest($1::text[], $2::bigint[], $3::text[])
        AS new (artifact_id, number, fields)
    WHERE record.artifact_id = new.artifact_id AND record.number = new.number"""
_SET_LENGTHS = """
    UPDATE record SET length = new.length FROM unnest($1::text[], $2::bigint[], $3::integer[])
        AS new (artifact_id, number, length)
    WHERE record.artifact_id = new.artifact_id AND record.number = new.number"""
_SET_TOTALS = """
    WITH former AS (DELETE FROM texts)
    INSERT INTO texts SELECT $1, count(*), coalesce(sum(length), 0) FROM record"""


_Found: TypeAlias = dict[int, tuple[str, int, int]]
"""For the number of each record: its artifact, how many of some words it has, and its length."""


class _State(NamedTuple):
    """What scores follow from, besides the rows that contain a word.

    Args:
        language: The language of the texts.
        records: The number of records.
        words: The number of words in them.
        frequencies: The number of records with each of some words.
    """

    language: Language | None
    records: int
    words: int
    frequencies: Mapping[str, int]

    def about(self, names: Iterable[str]) -> "_State":
        """Return what of it is about some words."""
        return self._replace(frequencies={name: self.frequencies.get(name, 0) for name in names})


class KnownTexts:
    """What a store saw last of the texts of its corpus.

    Args:
        language: The language that they may have.
    """

    def __init__(self, language: Language | None) -> None:
        self.state = _State(language, 0, 0, {})

    def learn(self, row: Sequence[Any], names: Iterable[str]) -> _State:
        """Return the state that an answer of `_STATE` tells, and take note of it."""
        with detect_damage():
            records, words, found = int(row[1]), int(row[2]), dict(zip(names, map(int, row[3]), strict=True))
        most = max(found.values(), default=0)
        if not (most <= records <= _MOST_COUNTED and (most > 0) <= words <= _MOST_COUNTED):
            raise DamagedValue(f"the word index counts {records} records with {words} words")
        before = self.state.frequencies if len(self.state.frequencies) < _MOST_KNOWN else {}
        self.state = _State(parse_language(row[0]), records, words, {**before, **found})
        return self.state.about(names)


def parse_language(value: str | None) -> Language | None:
    """Return the language in a row of the table `texts`."""
    if value not in (*LANGUAGES, *EARLIER_LANGUAGES, None):
        raise DamagedValue(f"the texts are of the language {short_repr(value)}, which airw does not know")
    return check_language(value)


async def read_language(c: "Connection", _: TextLanguage | None = None) -> Language | None:
    """Return the language of the texts."""
    row = await c.fetchrow("SELECT language FROM texts")
    if row is None:
        raise DamagedValue("the corpus does not say the language of its texts")
    return parse_language(row[0])


async def rank_containing(c: "Connection", known: KnownTexts, request: Rank) -> list[Ranking]:
    """Return the best of those artifacts whose texts contain what they must."""
    has_begun = not c.is_in_transaction()
    if has_begun:
        await c.execute(BEGIN_SNAPSHOT)
    analyser, contains = Analyser(await read_language(c)), cast("Contains", request.contains)
    every = [await _find_term(c, analyser, term) for term in contains.every]
    none = [await _find_term(c, analyser, term) for term in contains.none]
    beginnings = [rows for term, rows in zip(contains.every, every, strict=True) if term.endswith("*")]
    artifacts: list[set[Any]] = [{artifact_id for artifact_id, *_ in rows.values()} for rows in every]
    if request.among is not None:
        artifacts.append({*request.among})
    elif not artifacts:
        artifacts.append({row[0] for row in await c.fetch("SELECT DISTINCT artifact_id FROM record")})
    without = {artifact_id for rows in none for artifact_id, *_ in rows.values()}
    asked = replace(request, among=sorted(set.intersection(*artifacts) - without), contains=None)
    rankings = await (rank(c, known, asked, beginnings) if request.needs == "lexical" else rank_vectors(c, asked))
    if has_begun:
        await c.execute("COMMIT")
    return rankings


async def _find_term(c: "Connection", analyser: Analyser, term: str) -> _Found:
    """Return the records with a text that contains a term."""
    if term.endswith("*") and len(words := analyser.cut([term])[0]) == 1:
        return await _find_beginning(c, analyser, words[0])
    phrases = [analyser.stem(phrase) for phrase in analyser.phrases(term)]
    keys = {_to_key(word) for phrase in phrases for word in phrase}
    rows = await c.fetch(_WITH_ALL, [*keys], len(keys)) if keys else []

    def find() -> _Found:
        # Of one word, the index knows all.
        is_one = len(phrases) == len(phrases[0]) == 1 if phrases else True
        texts = [[]] * len(rows) if is_one else analyser.split([row[3].decode() for row in rows])
        pairs = zip(rows, texts, strict=True)
        found = [row for row, own in pairs if is_one or all(_follow(own, phrase) for phrase in phrases)]
        return {row[0]: (row[1], 1, row[2]) for row in found}

    with detect_damage():
        return await in_thread(find)


def _follow(words: Sequence[str], phrase: Sequence[str]) -> bool:
    """Return whether the words of a phrase follow each other among some words."""
    return any(words[at : at + len(phrase)] == phrase for at in range(len(words) - len(phrase) + 1))


async def _find_beginning(c: "Connection", analyser: Analyser, beginning: str) -> _Found:
    """Return the records with a word that begins so."""
    unsure = analyser.list_stems(beginning)
    rows = await c.fetch(_WITH_BEGINNING, beginning, f"{beginning}\U0010ffff", unsure)
    found: _Found = {row[0]: (row[1], row[2], row[3]) for row in rows}
    rows = await c.fetch(_WITH_ANY, unsure, f"%{beginning}%" if beginning.isascii() else "%")

    def count_all() -> list[int]:
        words = analyser.cut([row[3].decode() for row in rows])
        return [sum(word.startswith(beginning) for word in own) for own in words]

    with detect_damage():
        counts = await in_thread(count_all)
    found.update({row[0]: (row[1], n, row[2]) for row, n in zip(rows, counts, strict=True) if n})
    return found


async def rank(c: "Connection", known: KnownTexts, request: Rank, beginnings: Sequence[_Found] = ()) -> list[Ranking]:
    """Return the best records or artifacts of each query; see `Rank`.

    Args:
        c: The connection.
        known: What is known of the texts.
        request: The request.
        beginnings: Records with beginnings of words that are words of each query.
    """
    queries: Any = request.queries
    state, has_begun = known.state, False
    for attempt in count():
        if attempt == 2 and not c.is_in_transaction():  # others write again and again
            await c.execute(BEGIN_SNAPSHOT)
            has_begun = True
        words_by_query = await _cut_queries(queries, language := state.language)
        names = sorted({word for words in words_by_query for word in words})
        guess = state.about(names)
        counts = request.statistics or guess
        weights = [
            {word: times * weigh_word(counts.records, counts.frequencies.get(word, 0)) for word, times in words.items()}
            for words in words_by_query
        ]
        if counts.records:
            # All results contain a beginning, so it is taken for a word that all records have.
            weight = weigh_word(counts.records, counts.records)
            for words in weights:
                words.update({f"{place}*": weight for place in range(len(beginnings))})
        sql, values = _select_best(request, names, weights, counts, beginnings)
        rows = await c.fetch(sql, *values)
        state = known.learn(rows[0], names)
        if state == guess or (request.statistics is not None and state.language == language):
            break
    if has_begun:
        await c.execute("COMMIT")
    if request.statistics is not None:
        check_term_counts(request.statistics, words_by_query, formula_of(Analyser(language)))
    rankings = []
    for row, query in zip(rows if queries else (), weights, strict=True):
        ids, artifact_ids, scores = (column or [] for column in row[-3:])
        check_types([ids, artifact_ids, scores], [str, str, float])
        # A word that no record contains adds nothing to the highest possible score.
        known_words = {word for word, frequency in counts.frequencies.items() if frequency}
        limits = [
            weight * (K1 + 1.0)
            for word, weight in query.items()
            if request.k != 0 and (word in known_words or word.endswith("*"))
        ]
        rankings.append(Ranking(ids, artifact_ids, np.array(scores, np.float64), sum(limits)))
    return rankings


def _select_best(
    request: Rank,
    names: Sequence[str],
    weights: Sequence[Mapping[str, float]],
    counts: _State | TermCounts,
    beginnings: Sequence[_Found],
) -> tuple[str, list[Any]]:
    """Return the statement for the state of texts and the best records, with parameters."""
    parameters = Parameters()
    state = _STATE.format(words=parameters.add([*map(_to_key, names)], "text[]"))
    asked = [
        (at, _to_key(word), weight)
        for at, query in enumerate(weights)
        for word, weight in query.items()
        if counts.frequencies.get(word, 0) or word.endswith("*")
    ]
    average = counts.words / counts.records if counts.words and counts.records else 1.0
    arrays = zip(zip(*asked, strict=True) if asked else [()] * 3, ("bigint", "text", "float8"), strict=True)
    columns = ", ".join([parameters.add([*column], f"{type}[]") for column, type in arrays])
    postings = "posting"
    if beginnings:
        rows = [
            (f"{place}*", number, times, length)
            for place, own in enumerate(beginnings)
            for number, (_, times, length) in own.items()
        ]
        kinds = ("text", "bigint", "integer", "integer")
        lists = zip(zip(*rows, strict=True) if rows else [()] * 4, kinds, strict=True)
        found = ", ".join([parameters.add([*column], f"{kind}[]") for column, kind in lists])
        postings = f"""(
            SELECT word, number, count, length FROM posting
            UNION ALL SELECT * FROM unnest({found}) AS found (word, number, count, length)
        ) AS posting"""
    limit = parameters.add(MOST if request.k is None else request.k, "bigint")
    conditions = list_conditions(request, parameters, "record")
    # The words of a query are in their order, so that sums are rounded as elsewhere.
    scored = f"""
        SELECT number, sum(weight * {_FACTOR.format(average=parameters.add(average, "float8"))} ORDER BY place) AS score
        FROM unnest({columns}) WITH ORDINALITY AS asked (query, word, weight, place) JOIN {postings} USING (word)
        WHERE query = queries.query GROUP BY number"""
    distinct, order = "", "score DESC, record.artifact_id, idx, number"
    if request.per_artifact:
        distinct, order = "DISTINCT ON (record.artifact_id)", "record.artifact_id, score DESC, idx, number"
    elif not conditions:  # name only the best
        scored += f" ORDER BY score DESC FETCH FIRST ({limit}) ROWS WITH TIES"
    best = f"""
        SELECT * FROM (
            SELECT {distinct} score, record.artifact_id, id, idx, number FROM ({scored}) AS scored
            JOIN record USING (number) WHERE {" AND ".join(conditions) or "true"} ORDER BY {order}
        ) AS best ORDER BY score DESC, artifact_id, idx, number LIMIT {limit}"""
    sql = f"""
        SELECT state.*, best.* FROM (SELECT {state}) AS state
        LEFT JOIN generate_series(0, {parameters.add(len(weights), "bigint")} - 1) AS queries (query) ON true
        LEFT JOIN LATERAL (
            SELECT array_agg(id), array_agg(artifact_id), array_agg(score) FROM ({best}) AS best
        ) AS best ON true ORDER BY query"""
    return sql, parameters.values


async def count_terms(c: "Connection", known: KnownTexts, queries: Sequence[str]) -> TermCounts:
    """Return the counts behind the scores of queries; see `Words`."""
    state = known.state
    while True:
        words_by_query = await _cut_queries(queries, language := state.language)
        names = sorted({word for words in words_by_query for word in words})
        row = await c.fetchrow(f"SELECT {_STATE.format(words='$1::text[]')}", [*map(_to_key, names)])
        state = known.learn(row, names)
        if state.language == language:
            break
    repeats: dict[str, int] = {}
    for words in words_by_query:
        repeats.update({word: max(times, repeats.get(word, 1)) for word, times in words.items() if times > 1})
    return TermCounts(formula_of(Analyser(language)), state.records, state.words, state.frequencies, repeats)


async def _cut_queries(queries: Sequence[str], language: Language | None) -> list[dict[str, int]]:
    return await offload_if(sum(map(len, queries)) > _MANY_LETTERS, Analyser(language).query_terms, queries)


@dataclass(frozen=True, slots=True)
class TextWords:
    """The words of some texts.

    Args:
        language: The language for which they were cut.
        counts: How often each text contains each of its words.
        lengths: The number of words in each text.
    """

    language: Language | None
    counts: Sequence[Mapping[str, int]]
    lengths: Sequence[int]

    @classmethod
    def of(cls, texts: Sequence[str], language: Language | None) -> "TextWords":
        """Return the words of texts; a thread should do it for more than a few."""
        words = Analyser(language).split(texts)
        return cls(language, [*map(Counter, words)], [*map(len, words)])

    def list_postings(self, records: Iterable[tuple[str, int]]) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of the table `posting`, for the artifact and the number of each record."""
        for (artifact_id, number), counts, length in zip(records, self.counts, self.lengths, strict=True):
            for word, times in counts.items():
                yield artifact_id, number, _to_key(word), times, length


def _to_key(word: str) -> str:
    """Return a word as an index contains it: of a long one, the beginning and a digest."""
    # No word contains a space, so no other word has this key.
    return word if len(word) <= _LONGEST_KEY else f"{word[:_LONGEST_KEY]} {hashlib.blake2b(word.encode()).hexdigest()}"


async def change_language(c: "Connection", language: Language | None) -> None:
    """Index all texts again for a language, unless it is the present one."""
    if await read_language(c) != language:
        await index_all(c, language)


async def index_all(c: "Connection", language: Language | None) -> None:
    """Index all texts for a language, in the open transaction of a writer."""
    # TRUNCATE would make others wait, and find nothing meanwhile.
    await c.execute("DELETE FROM posting")
    last = -1
    while rows := await c.fetch(_RECORDS, last, _PAGE):
        with detect_damage():
            texts = [row[2].decode() for row in rows]
        words = await in_thread(TextWords.of, texts, language)
        artifact_ids, numbers = [row[0] for row in rows], [row[1] for row in rows]
        postings = words.list_postings(zip(artifact_ids, numbers, strict=True))
        await insert_rows(c, {"posting": postings}, are_few=False)
        await c.execute(_SET_LENGTHS, artifact_ids, numbers, words.lengths)
        last = numbers[-1]
    await c.execute(_SET_TOTALS, language)


async def upgrade(c: "Connection") -> None:
    """Bring a corpus of format 1 up to date in the open transaction, unless others did so."""
    mark = await c.fetchval("SELECT obj_description(quote_ident(current_schema())::regnamespace, 'pg_namespace')")
    before, _, version = mark.rpartition(" ")
    if int(version) < VERSION:
        name = await c.fetchval("SELECT value FROM setting WHERE kind = 'language' AND key = ''")
        with detect_damage():
            language = _FORMER_NAMES[json.loads(name)]
        await c.execute("; ".join(["SET LOCAL statement_timeout = 0", *UPGRADES]))
        await index_all(c, language)
        last = -1
        while rows := await c.fetch(_METADATA, last, _PAGE):
            fields = [to_fields(row[2]) for row in rows]
            await c.execute(_SET_FIELDS, [row[0] for row in rows], [row[1] for row in rows], fields)
            last = rows[-1][1]
        schema = await c.fetchval("SELECT current_schema()::text")
        await c.execute(f"COMMENT ON SCHEMA {quote(schema)} IS '{before} {VERSION}'")
