"""The exam that every embedder passes."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any, cast

import anyio
import numpy as np

from airw._base.arrays import Floats
from airw._base.concurrency import first_error
from airw.errors import ArgumentError, EmbedderError
from airw.protocols import Embedder
from airw.testing.exam import Case, Exam, case, expect, expect_equal, expect_error

_LENGTH_TOLERANCE = 1e-4
_ATTEMPTS = 3  # at a time measured, as others may keep the machine busy
_SAMPLE = 40  # of the texts in a large batch, so many are embedded alone too

_TEXTS = [
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
]
_ODD_TEXTS = ["", " ", "\n\r\n\t", "\0", "nul \0 within", "👩‍👩‍👧 🇨🇭 ❤️", "שלום עולם", "e\u0301 ﬁ Ⅷ", "東京都の天気"]
_ODD_TEXTS += ["—…!?", "\ufeff\u200b"]
_LONG = " ".join(_TEXTS)
_BATCHES: dict[str, list[list[str]]] = {
    "beside_a_longer_text": [[text, _LONG] for text in _TEXTS],
    "beside_a_shorter_text_and_one_in_capitals": [["a", text, text.upper()] for text in _TEXTS],
    "among_texts_of_all_lengths": [[_LONG, *_TEXTS, *(f"{number} {_LONG[: 5 * number]}" for number in range(22))]],
    "in_any_order": [_TEXTS, _TEXTS[::-1]],
    "as_often_as_it_is_there": [[*_TEXTS, *_TEXTS[::-1], _TEXTS[0]]],
    "among_empty_texts_line_breaks_emoji_nul_and_other_scripts": [[*_ODD_TEXTS, *_TEXTS]],
    "beside_a_very_long_text": [[_TEXTS[0], "a very long text about bread, keys and whales; " * 2_500, _TEXTS[1]]],
    "among_a_thousand": [[f"{number} {_TEXTS[number % len(_TEXTS)][:30]}" for number in range(1_000)]],
}


@dataclass(frozen=True, slots=True)
class ExaminedEmbedder:
    """What a case is given: the embedder, a maker of another one where there is one, and the bounds to hold."""

    embedder: Embedder
    make_another: Callable[[], Awaitable[Embedder]] | None
    tolerance: float
    max_gap: float | None

    async def rows(self, texts: Sequence[str], embedder: Embedder | None = None) -> Floats:
        """Return the vectors of texts as an array that can be compared, whatever else is wrong with it."""
        rows = np.asarray(await (embedder or self.embedder).embed_documents(texts), np.float64)
        expect(rows.ndim == 2 and len(rows) == len(texts), f"expected {len(texts)} vectors, got shape {rows.shape}")
        return cast("Floats", rows)

    async def rows_alone(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts, each embedded by itself."""
        return cast("Floats", np.concatenate([await self.rows([text]) for text in texts]))

    def expect_close(self, rows: Floats, others: Floats, texts: Sequence[str], where: str) -> None:
        """Expect that the vectors of the same texts differ in no number by more than the tolerance."""
        apart = np.abs(rows - others).max(axis=1, initial=0.0)
        for at, text in enumerate(texts):
            what = f"text {at}, {_shown(text)}, {where}: expected its vector to differ by at most {self.tolerance:g}"
            expect(apart[at] <= self.tolerance, f"{what} from that of the text alone, got {apart[at]:.2g}")


CASES: list[Case[ExaminedEmbedder]] = []


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 40 else f"{text[:37]}...")


def _expect_sound(rows: Any, texts: Sequence[str], *, zero: bool = True) -> None:
    """Expect finite rows of length one, or zero where that is allowed."""
    lengths = np.linalg.norm(np.asarray(rows, np.float64), axis=1)
    for text, length in zip(texts, lengths, strict=True):
        is_sound = abs(length - 1) <= _LENGTH_TOLERANCE or (zero and length == 0)
        expect(
            is_sound, f"expected length 1{' or 0' if zero else ''} of the vector of {_shown(text)}, got {length:.6g}"
        )


def _expect_floats(answer: Any, shape: tuple[int, ...]) -> None:
    expect(isinstance(answer, np.ndarray), f"expected a numpy array, got {type(answer).__name__}")
    expect(answer.dtype == np.float32, f"expected float32, got {answer.dtype}")
    expect_equal(answer.shape, shape, "the shape of the answer")


@case(CASES)
async def _the_protocol_is_there_method_by_method(given: ExaminedEmbedder) -> None:
    await given.embedder.embed_query(_TEXTS[0])  # some know their width only now
    expect(isinstance(given.embedder, Embedder), f"expected an Embedder, got {type(given.embedder).__name__}")


@case(CASES)
async def _id_and_dim_are_there_and_stay_the_same(given: ExaminedEmbedder) -> None:
    before = given.embedder.id
    expect(isinstance(before, str) and before.strip(), f"expected an id that says something, got {before!r}")
    expect(len(before.splitlines()) == 1, f"expected an id of one line, got {before!r}")
    expect(not PurePath(before).is_absolute(), f"expected an id that names a model, got the path {before!r}")
    dims = set()
    for text in _TEXTS[:3]:
        await given.embedder.embed_query(text)
        await given.embedder.embed_documents([text])
        expect_equal(given.embedder.id, before, "the id after a call")
        dims.add(given.embedder.dim)
    expect(len(dims) == 1, f"expected dim to stay the same, got {sorted(dims)}")
    [dim] = dims
    is_count = isinstance(dim, int) and not isinstance(dim, bool) and dim >= 1
    expect(is_count, f"expected dim to be a whole number of at least 1, got {dim!r}")


@case(CASES, "factory")
async def _another_embedder_made_the_same_way_has_the_same_id_and_the_same_vectors(given: ExaminedEmbedder) -> None:
    other = await cast("Callable[[], Awaitable[Embedder]]", given.make_another)()
    expect_equal(other.id, given.embedder.id, "the id of another embedder")
    rows, others = await given.rows(_TEXTS), await given.rows(_TEXTS, other)
    expect_equal(others.shape, rows.shape, "the shape that another embedder gives")
    given.expect_close(others, rows, _TEXTS, "from another embedder")


@case(CASES)
async def _documents_give_one_finite_row_of_float32_and_length_one_each(given: ExaminedEmbedder) -> None:
    for texts in (_TEXTS, _ODD_TEXTS):
        rows = await given.embedder.embed_documents(texts)
        _expect_floats(rows, (len(texts), given.embedder.dim))
        _expect_sound(rows, texts)


@case(CASES)
async def _a_query_gives_one_vector_of_float32_and_length_one(given: ExaminedEmbedder) -> None:
    for text in _TEXTS:
        row = await given.embedder.embed_query(text)
        _expect_floats(row, (given.embedder.dim,))
        _expect_sound(row[None], [text], zero=False)


@case(CASES)
async def _a_query_asked_twice_gives_the_same_vector(given: ExaminedEmbedder) -> None:
    rows = [np.array(await given.embedder.embed_query(_TEXTS[0]))[None] for _ in range(2)]
    given.expect_close(rows[0], rows[1], _TEXTS[:1], "as a query, a second time")


@case(CASES)
async def _no_texts_give_no_rows_of_the_right_width(given: ExaminedEmbedder) -> None:
    await given.embedder.embed_query(_TEXTS[0])
    _expect_floats(await given.embedder.embed_documents([]), (0, given.embedder.dim))


async def _a_vector_is_that_of_its_text_alone(how: str, given: ExaminedEmbedder) -> None:
    alone: dict[str, Floats] = {}
    for batch in _BATCHES[how]:
        rows = await given.rows(batch)
        _expect_sound(rows, batch)
        picked = [at for at in range(len(batch)) if at % (len(batch) // _SAMPLE + 1) == 0 or at > len(batch) - 3]
        for text in {batch[at] for at in picked} - alone.keys():
            alone[text] = (await given.rows([text]))[0]
        texts = [batch[at] for at in picked]
        wanted = cast("Floats", np.array([alone[text] for text in texts]))
        given.expect_close(rows[picked], wanted, texts, f"among {len(batch) - 1} others")


CASES += [
    Case.of(f"a_vector_is_that_of_its_text_alone_{how}", partial(_a_vector_is_that_of_its_text_alone, how))
    for how in _BATCHES
]


@case(CASES)
async def _texts_are_read_and_not_changed_as_a_list_or_a_tuple(given: ExaminedEmbedder) -> None:
    texts = list(_TEXTS)
    rows = np.array(await given.embedder.embed_documents(texts))
    expect_equal(texts, _TEXTS, "the list of texts after the call")
    given.expect_close(await given.rows(tuple(_TEXTS)), rows, _TEXTS, "in a tuple")


@case(CASES)
async def _an_answer_is_the_callers_own(given: ExaminedEmbedder) -> None:
    first = await given.embedder.embed_documents(list(_TEXTS))
    query = await given.embedder.embed_query(_TEXTS[0])
    kept, kept_query = np.array(first), np.array(query)
    for answer in (first, query):
        if answer.flags.writeable:
            answer[:] = 0
    given.expect_close(await given.rows(_TEXTS), kept, _TEXTS, "after an answer was changed")
    again = await given.embedder.embed_query(_TEXTS[0])
    given.expect_close(again[None], kept_query[None], _TEXTS[:1], "as a query, after an answer was changed")


@case(CASES)
async def _one_string_in_place_of_a_list_is_refused(given: ExaminedEmbedder) -> None:
    with expect_error(EmbedderError, "embed_documents('one string')"):
        await given.embedder.embed_documents("one string")


@case(CASES)
async def _what_is_no_string_is_refused(given: ExaminedEmbedder) -> None:
    bad: Any
    for bad in ([b"bytes"], [None], ["fine", 3], [["nested"]]):
        with expect_error(EmbedderError, f"embed_documents({bad!r})"):
            await given.embedder.embed_documents(bad)
    for bad in (None, 3, ["a list"]):
        with expect_error(EmbedderError, f"embed_query({bad!r})"):
            await given.embedder.embed_query(bad)


@case(CASES)
async def _half_characters_are_embedded_or_refused(given: ExaminedEmbedder) -> None:
    for text in ("bread \ud800 recipe", "\udfff"):
        try:
            rows = await given.embedder.embed_documents([text])
        except EmbedderError as error:
            message = str(error)
            expect(message.strip() and "\n" not in message, f"expected an error of one line, got {message!r}")
        else:
            _expect_sound(rows, [text])


@case(CASES)
async def _concurrent_calls_each_get_their_own_answer(given: ExaminedEmbedder) -> None:
    alone = await given.rows_alone(_TEXTS)
    queries = [np.array(await given.embedder.embed_query(text)) for text in _TEXTS]

    async def documents(shift: int) -> None:
        order = [(at + shift) % len(_TEXTS) for at in range(1 + shift % len(_TEXTS))]
        texts = [_TEXTS[at] for at in order]
        given.expect_close(await given.rows(texts), alone[order], texts, "while others ask")

    async def query(at: int) -> None:
        row = await given.embedder.embed_query(_TEXTS[at])
        given.expect_close(row[None], queries[at][None], _TEXTS[at : at + 1], "as a query, while others ask")

    with first_error():
        async with anyio.create_task_group() as group:
            for number in range(2 * len(_TEXTS)):
                group.start_soon(documents, number)
                group.start_soon(query, number % len(_TEXTS))


@case(CASES)
async def _a_cancelled_call_leaves_the_embedder_usable(given: ExaminedEmbedder) -> None:
    alone = await given.rows_alone(_TEXTS)
    for seconds in (0.0, 0.001, 0.01, 0.05):
        with anyio.move_on_after(seconds):
            await given.embedder.embed_documents(_batch(50, f"cancelled after {seconds}"))
        given.expect_close(await given.rows(_TEXTS), alone, _TEXTS, "after a cancelled call")


@case(CASES, "max_gap")
async def _the_event_loop_keeps_running_while_a_batch_is_embedded(given: ExaminedEmbedder) -> None:
    await given.embedder.embed_documents(_batch(10, "warms up"))
    limit, gaps = given.max_gap or 0.0, []
    for attempt in range(_ATTEMPTS):
        gaps.append(await _longest_gap(given.embedder, _batch(100, f"attempt {attempt}")))
        if gaps[-1] <= limit:
            return
    raise AssertionError(f"expected other tasks to wait for at most {limit:g} s, got {min(gaps):.3g} s")


def _batch(count: int, mark: str) -> list[str]:
    return [f"{mark} {number}: {_TEXTS[number % len(_TEXTS)]} {_TEXTS[2]}" for number in range(count)]


async def _longest_gap(embedder: Embedder, texts: list[str]) -> float:
    """Return the longest time in seconds for which a task that only sleeps could not run."""
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


class EmbedderSuite(Exam[ExaminedEmbedder]):
    """The exam of an embedder: cases as data, to run all at once or one a test; needs no test framework.

    Args:
        embedder: An embedder, or a function without parameters that makes one: then each case gets its own, closed
            after it where it is an async context manager, and another one must equal the first. A model is slow to
            load: pass it as it is.
        tolerance: The most that a number of a text's vector may differ in another batch, or asked for again.
        max_gap: The longest time in seconds for which a batch may keep other tasks of the event loop from running, in
            the best of three attempts; `None` leaves that case out.

    Raises:
        ArgumentError: `embedder` is neither, or a bound is no number of at least 0.

    Example:
        >>> import anyio
        >>> from airw.embedders import HashingEmbedder
        >>> suite = EmbedderSuite(HashingEmbedder)
        >>> print(anyio.run(suite.run).failed)
        ()
    """

    subject, all_cases = "embedder", CASES

    def __init__(
        self, embedder: Embedder | Callable[[], Embedder], *, tolerance: float = 1e-5, max_gap: float | None = 0.25
    ) -> None:
        is_maker = isinstance(embedder, type) or not hasattr(embedder, "embed_documents")
        if is_maker and not callable(embedder):
            raise ArgumentError(f"embedder must be an Embedder or a function that makes one, not {embedder!r}")
        self._make = cast("Callable[[], Embedder]", embedder) if is_maker else None
        self._embedder = None if is_maker else cast("Embedder", embedder)
        self._tolerance = _check_bound("tolerance", tolerance)
        self._max_gap = None if max_gap is None else _check_bound("max_gap", max_gap)

    def _offers(self, case: Case[ExaminedEmbedder]) -> bool:
        offered = {"factory": self._make is not None, "max_gap": self._max_gap is not None}
        return all(offered[need] for need in case.needs)

    @asynccontextmanager
    async def _examinee(self) -> AsyncIterator[ExaminedEmbedder]:
        async with AsyncExitStack() as stack:
            make = partial(_open, self._make, stack) if self._make else None
            embedder = self._embedder if make is None else await make()
            yield ExaminedEmbedder(cast("Embedder", embedder), make, self._tolerance, self._max_gap)


async def _open(make: Callable[[], Embedder], stack: AsyncExitStack) -> Embedder:
    embedder = make()
    if isinstance(embedder, AbstractAsyncContextManager):
        await stack.enter_async_context(embedder)
    return embedder


def _check_bound(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ArgumentError(f"{name} must be a number of at least 0, not {value!r}")
    return float(value)
