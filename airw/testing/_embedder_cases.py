"""The cases of the embedders' exam."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TypeAlias, TypeVar, cast

import anyio
import numpy as np

from airw._base.arrays import Floats
from airw._base.concurrency import first_error
from airw.errors import EmbedderError
from airw.protocols import Embedder
from airw.testing.exam import Case, expect, expect_error

__all__ = ["CASES", "EmbedderCase", "Examinee"]

R = TypeVar("R")

_LENGTH_TOLERANCE = 1e-4
_ANOTHER_TEXT = 1e-2  # a difference that no rounding explains
_ATTEMPTS = 3  # at a time measured, as others may keep the machine busy

_TEXTS = (
    "how to rotate the signing keys",
    "bread",
    "The recipe asks for flour, water, salt and a night of patience; the oven must be hot before the loaf goes in.",
    "stock prices fell on Monday",
    "a walk along the river in the rain",
    "The committee will meet again on the third of May to vote on the budget, the by-laws and the new roof.",
    "install the package with pip",
    "whales sing",
    "Der Zug nach Basel fährt um halb acht.",
    "a proof by induction over the length of the list",
)
_ODD_TEXTS = (
    "",
    " ",
    "\n\r\n\t",
    "\0",
    "nul \0 within",
    "👩‍👩‍👧 🇨🇭 ❤️",
    "שלום עולם",
    "e\u0301 ﬁ Ⅷ",
    "東京都の天気",
    "—…!?",
    "\ufeff\u200b",
)


@dataclass(frozen=True, slots=True)
class Examinee:
    """What a case is given: the embedder, a maker of another one where there is one, and the bounds to hold."""

    embedder: Embedder
    make_another: Callable[[], Awaitable[Embedder]] | None
    tolerance: float
    max_gap: float | None


EmbedderCase: TypeAlias = Case[Examinee]
Check: TypeAlias = Callable[[Examinee], Coroutine[Any, Any, None]]

CASES: list[EmbedderCase] = []


def _fact(*needs: str) -> Callable[[Check], Check]:
    """Add a check to the cases; its function's name, read as a sentence, is the promise."""

    def add(check: Check) -> Check:
        name = check.__name__.strip("_")
        CASES.append(Case(name, f"{name[0].upper()}{name[1:].replace('_', ' ')}.", check, frozenset(needs)))
        return check

    return add


async def _rows(embedder: Embedder, texts: Sequence[str]) -> Floats:
    """Give the answer as an array that can be compared, whatever else is wrong with it."""
    rows = np.asarray(await embedder.embed_documents(texts), np.float64)
    expect(rows.ndim == 2 and len(rows) == len(texts), f"{len(texts)} texts gave an answer of shape {rows.shape}")
    return cast("Floats", rows)


async def _each_alone(embedder: Embedder, texts: Sequence[str]) -> Floats:
    return cast("Floats", np.concatenate([await _rows(embedder, [text]) for text in texts]))


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 40 else f"{text[:37]}...")


def _expect_close(rows: Floats, others: Floats, texts: Sequence[str], within: float, where: str) -> None:
    """Expect that the rows of the same texts differ in no number by more than `within`."""
    apart = np.abs(rows - others).max(axis=1, initial=0.0)
    worst = int(np.argmax(~(apart <= within))) if len(apart) else 0
    if len(apart) and not apart[worst] <= within:
        raise AssertionError(
            f"the vector of text {worst}, {_shown(texts[worst])}, {where} differs by {apart[worst]:.2g} from that of "
            f"the text alone; at most {within:g} is allowed"
        )


def _expect_sound(rows: Any, texts: Sequence[str], *, zero: bool = True) -> None:
    """Expect finite rows of length one, or zero where that is allowed."""
    lengths = np.linalg.norm(np.asarray(rows, np.float64), axis=1)
    for text, length in zip(texts, lengths, strict=True):
        is_sound = abs(length - 1) <= _LENGTH_TOLERANCE or (zero and length == 0)
        expect(is_sound, f"the vector of {_shown(text)} has length {length:.6g}, not 1{' or 0' if zero else ''}")


@_fact()
async def _the_protocol_is_there_method_by_method(given: Examinee) -> None:
    await given.embedder.embed_query(_TEXTS[0])  # some know their width only now
    expect(isinstance(given.embedder, Embedder), f"{type(given.embedder).__name__} lacks a part of airw's Embedder")


@_fact()
async def _id_and_dim_are_there_and_stay_the_same(given: Examinee) -> None:
    before = given.embedder.id
    expect(isinstance(before, str) and before.strip(), f"id must be a string that says something, not {before!r}")
    expect(len(before.splitlines()) == 1, f"id must be one line, not {before!r}")
    expect(not PurePath(before).is_absolute(), f"id must name a model, never a path such as {before!r}")
    seen = set()
    for text in _TEXTS[:3]:
        await given.embedder.embed_query(text)
        await given.embedder.embed_documents([text])
        seen.add((given.embedder.id, given.embedder.dim))
    expect({id for id, _ in seen} == {before}, f"id must stay {before!r}, it became {sorted({id for id, _ in seen})}")
    expect(len(seen) == 1, f"dim must stay the same, it was {sorted(dim for _, dim in seen)}")
    [(_, dim)] = seen
    is_count = isinstance(dim, int) and not isinstance(dim, bool) and dim >= 1
    expect(is_count, f"dim must be a whole number of at least 1, not {dim!r}")


@_fact("factory")
async def _another_embedder_made_the_same_way_has_the_same_id_and_the_same_vectors(given: Examinee) -> None:
    if given.make_another is None:
        raise AssertionError("there is nothing to make another one with")
    other = await given.make_another()
    expect(other.id == given.embedder.id, f"its id is {other.id!r}, that of the first is {given.embedder.id!r}")
    rows, others = await _rows(given.embedder, _TEXTS), await _rows(other, _TEXTS)
    expect(rows.shape == others.shape, f"it gives shape {others.shape}, the first {rows.shape}")
    _expect_close(others, rows, _TEXTS, given.tolerance, "from another embedder")


@_fact()
async def _documents_give_one_row_each_as_an_array_of_float32(given: Examinee) -> None:
    rows: Any = await given.embedder.embed_documents(list(_TEXTS))
    expect(isinstance(rows, np.ndarray), f"the answer must be a numpy array, not {type(rows).__name__}")
    expect(rows.dtype == np.float32, f"the answer must be of float32, not {rows.dtype}")
    wanted = (len(_TEXTS), given.embedder.dim)
    expect(rows.shape == wanted, f"{len(_TEXTS)} texts must give shape {wanted}, not {rows.shape}")


@_fact()
async def _every_number_is_finite(given: Examinee) -> None:
    texts = [*_TEXTS, *_ODD_TEXTS]
    for text, row in zip(texts, await _rows(given.embedder, texts), strict=True):
        expect(np.isfinite(row).all(), f"the vector of {_shown(text)} is not finite")


@_fact()
async def _rows_have_length_one_or_are_zero(given: Examinee) -> None:
    _expect_sound(await _rows(given.embedder, _TEXTS), _TEXTS)


@_fact()
async def _a_query_gives_one_vector_of_float32_and_length_one(given: Examinee) -> None:
    for text in _TEXTS:
        row: Any = await given.embedder.embed_query(text)
        expect(isinstance(row, np.ndarray), f"the answer must be a numpy array, not {type(row).__name__}")
        wanted = (given.embedder.dim,)
        expect(row.shape == wanted, f"a query must give shape {wanted}, not {row.shape}")
        expect(row.dtype == np.float32, f"the answer must be of float32, not {row.dtype}")
        _expect_sound(row[None], [text], zero=False)


@_fact()
async def _rows_stand_in_the_order_of_the_texts(given: Examinee) -> None:
    alone = await _each_alone(given.embedder, _TEXTS)
    for turned in (1, -1):
        texts = _TEXTS[::turned]
        rows = await _rows(given.embedder, texts)
        _expect_close(rows, alone[::turned], texts, _ANOTHER_TEXT, "among others")


@_fact()
async def _a_vector_depends_neither_on_the_neighbours_of_its_text_nor_on_their_number(given: Examinee) -> None:
    alone = await _each_alone(given.embedder, _TEXTS)
    long = " ".join(_TEXTS)
    for batch in (
        *([text, long] for text in _TEXTS),
        *(["a", text, text.upper()] for text in _TEXTS),
        [long, *_TEXTS, *(f"{number} {long[: 5 * number]}" for number in range(22))],
    ):
        rows = await _rows(given.embedder, batch)
        places = [at for at, text in enumerate(batch) if text in _TEXTS]
        texts = [batch[at] for at in places]
        wanted = alone[[_TEXTS.index(text) for text in texts]]
        _expect_close(rows[places], wanted, texts, given.tolerance, f"among {len(batch) - 1} others")


@_fact()
async def _equal_texts_have_equal_vectors(given: Examinee) -> None:
    texts = [*_TEXTS, *_TEXTS[::-1], _TEXTS[0]]
    rows = await _rows(given.embedder, texts)
    first = rows[[_TEXTS.index(text) for text in texts]]
    _expect_close(rows, first, texts, given.tolerance, "a second time")
    again = [await given.embedder.embed_query(_TEXTS[0]) for _ in range(2)]
    expect(np.abs(again[0] - again[1]).max() <= given.tolerance, "the same query twice gave two vectors")


@_fact()
async def _no_texts_give_no_rows_of_the_right_width(given: Examinee) -> None:
    await given.embedder.embed_query(_TEXTS[0])
    rows: Any = await given.embedder.embed_documents([])
    wanted = (0, given.embedder.dim)
    expect(np.shape(rows) == wanted, f"no texts must give shape {wanted}, not {np.shape(rows)}")
    expect(rows.dtype == np.float32, f"the answer must be of float32, not {rows.dtype}")


@_fact()
async def _texts_are_read_and_not_changed_as_a_list_or_a_tuple(given: Examinee) -> None:
    texts = list(_TEXTS)
    rows = np.array(await given.embedder.embed_documents(texts))
    expect(texts == list(_TEXTS), "the list of texts was changed")
    _expect_close(await _rows(given.embedder, _TEXTS), rows, _TEXTS, given.tolerance, "in a tuple")


@_fact()
async def _an_answer_is_the_callers_own(given: Examinee) -> None:
    first = await given.embedder.embed_documents(list(_TEXTS))
    query = await given.embedder.embed_query(_TEXTS[0])
    kept, kept_query = np.array(first), np.array(query)
    for answer in (first, query):
        if answer.flags.writeable:
            answer[:] = 0
    _expect_close(await _rows(given.embedder, _TEXTS), kept, _TEXTS, given.tolerance, "after an answer was changed,")
    apart = np.abs(await given.embedder.embed_query(_TEXTS[0]) - kept_query).max()
    expect(apart <= given.tolerance, "changing the vector of a query changed its next one")


@_fact()
async def _one_string_in_place_of_a_list_is_refused(given: Examinee) -> None:
    with expect_error(EmbedderError, "embed_documents('one string')"):
        await given.embedder.embed_documents("one string")


@_fact()
async def _what_is_no_string_is_refused(given: Examinee) -> None:
    bad: Any
    for bad in ([b"bytes"], [None], ["fine", 3], [["nested"]]):
        with expect_error(EmbedderError, f"embed_documents({bad!r})"):
            await given.embedder.embed_documents(bad)
    for bad in (None, 3, ["a list"]):
        with expect_error(EmbedderError, f"embed_query({bad!r})"):
            await given.embedder.embed_query(bad)


@_fact()
async def _half_characters_are_embedded_or_refused(given: Examinee) -> None:
    texts = ["bread \ud800 recipe", "\udfff"]
    for text in texts:
        try:
            rows = await given.embedder.embed_documents([text])
        except EmbedderError as error:
            expect(str(error).strip() and "\n" not in str(error), f"the error must be one line, not {str(error)!r}")
        else:
            _expect_sound(rows, [text])


@_fact()
async def _empty_texts_line_breaks_emoji_nul_and_other_scripts_are_texts_like_others(given: Examinee) -> None:
    rows = await _rows(given.embedder, [*_ODD_TEXTS, *_TEXTS])
    _expect_sound(rows, [*_ODD_TEXTS, *_TEXTS])
    alone = await _each_alone(given.embedder, _ODD_TEXTS)
    _expect_close(rows[: len(_ODD_TEXTS)], alone, _ODD_TEXTS, given.tolerance, "among others")


@_fact()
async def _a_very_long_text_is_embedded_and_leaves_the_others_as_they_are(given: Examinee) -> None:
    texts = [_TEXTS[0], "a very long text about bread, keys and whales; " * 2_500, _TEXTS[1]]
    rows = await _rows(given.embedder, texts)
    _expect_sound(rows, texts)
    alone = await _each_alone(given.embedder, texts)
    _expect_close(rows, alone, texts, given.tolerance, "beside a very long one")


@_fact()
async def _a_thousand_texts_are_one_call(given: Examinee) -> None:
    texts = [f"{number} {_TEXTS[number % len(_TEXTS)][:30]}" for number in range(1_000)]
    rows = await _rows(given.embedder, texts)
    _expect_sound(rows, texts)
    picked = [0, 1, 31, 32, 63, 64, 127, 255, 256, 511, 512, 767, 998, 999]
    some = [texts[at] for at in picked]
    _expect_close(rows[picked], await _each_alone(given.embedder, some), some, given.tolerance, "among a thousand")


@_fact()
async def _concurrent_calls_each_get_their_own_answer(given: Examinee) -> None:
    alone = await _each_alone(given.embedder, _TEXTS)
    queries = [np.array(await given.embedder.embed_query(text)) for text in _TEXTS]

    async def documents(shift: int) -> None:
        order = [(at + shift) % len(_TEXTS) for at in range(1 + shift % len(_TEXTS))]
        texts = [_TEXTS[at] for at in order]
        _expect_close(await _rows(given.embedder, texts), alone[order], texts, given.tolerance, "while others ask")

    async def query(at: int) -> None:
        apart = np.abs(await given.embedder.embed_query(_TEXTS[at]) - queries[at]).max()
        expect(apart <= given.tolerance, f"a query while others ask differs by {apart:.2g} from the same query alone")

    with first_error():
        async with anyio.create_task_group() as group:
            for number in range(2 * len(_TEXTS)):
                group.start_soon(documents, number)
                group.start_soon(query, number % len(_TEXTS))


@_fact()
async def _a_cancelled_call_leaves_the_embedder_usable(given: Examinee) -> None:
    alone = await _each_alone(given.embedder, _TEXTS)
    for seconds in (0.0, 0.001, 0.01, 0.05):
        with anyio.move_on_after(seconds):
            await given.embedder.embed_documents(_batch(50, f"cancelled after {seconds}"))
        rows = await _rows(given.embedder, _TEXTS)
        _expect_close(rows, alone, _TEXTS, given.tolerance, "after a cancelled call")


@_fact("max_gap")
async def _the_event_loop_keeps_running_while_a_batch_is_embedded(given: Examinee) -> None:
    await given.embedder.embed_documents(_batch(10, "warms up"))
    limit, gaps = given.max_gap or 0.0, []
    for attempt in range(_ATTEMPTS):
        gaps.append(await _longest_gap(given.embedder, _batch(100, f"attempt {attempt}")))
        if gaps[-1] <= limit:
            return
    raise AssertionError(f"other tasks had to wait {min(gaps):.3g} s, at most {limit:g} s is allowed")


def _batch(count: int, mark: str) -> list[str]:
    return [f"{mark} {number}: {_TEXTS[number % len(_TEXTS)]} {_TEXTS[2]}" for number in range(count)]


async def _longest_gap(embedder: Embedder, texts: list[str]) -> float:
    """Give the longest time in seconds for which a task that only sleeps could not run."""
    gaps: list[float] = []

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await anyio.sleep(0.001)
            now = time.perf_counter()
            gaps.append(now - last)
            last = now

    with first_error():
        async with anyio.create_task_group() as group:
            group.start_soon(tick)
            await anyio.sleep(0.01)
            await embedder.embed_documents(texts)
            await anyio.sleep(0.01)
            group.cancel_scope.cancel()
    return max(gaps)
