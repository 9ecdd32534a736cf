"""The suite that checks embedders."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any, ClassVar, cast

import anyio
import numpy as np

from airw._base.arrays import Floats
from airw._base.concurrency import first_error
from airw.errors import ArgumentError, EmbedderError
from airw.protocols import Embedder
from airw.testing.exam import Case, Exam, case, expect, expect_equal, expect_refusal

_LENGTH_TOLERANCE = 1e-4
_ATTEMPTS = 6  # measurements of time, since other programs may keep the machine busy
_SAMPLE = 40  # texts of a large batch that are compared with their vectors alone

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
_BATCHES: dict[str, tuple[str, list[list[str]]]] = {
    "beside_a_longer_text": ("with a longer text", [[text, _LONG] for text in _TEXTS]),
    "beside_a_shorter_text_and_one_in_capitals": (
        "with a shorter text and one in capitals",
        [["a", text, text.upper()] for text in _TEXTS],
    ),
    "among_texts_of_all_lengths": (
        "with texts of all lengths",
        [[_LONG, *_TEXTS, *(f"{number} {_LONG[: 5 * number]}" for number in range(22))]],
    ),
    "in_any_order": ("in forward and reverse order", [_TEXTS, _TEXTS[::-1]]),
    "as_often_as_it_is_there": ("with duplicates", [[*_TEXTS, *_TEXTS[::-1], _TEXTS[0]]]),
    "among_empty_texts_line_breaks_emoji_nul_and_other_scripts": (
        "with empty texts, emoji, NUL and other scripts",
        [[*_ODD_TEXTS, *_TEXTS]],
    ),
    "beside_a_very_long_text": (
        "with a very long text",
        [[_TEXTS[0], "a very long text about bread, keys and whales; " * 2_500, _TEXTS[1]]],
    ),
    "among_a_thousand": (
        "with a thousand texts",
        [[f"{number} {_TEXTS[number % len(_TEXTS)][:30]}" for number in range(1_000)]],
    ),
}
"""What each text is embedded with, for the id and for the promise of a case."""


@dataclass(frozen=True, slots=True)
class EmbedderFixture:
    """The fixture of one case: the embedder to check and the bounds.

    `make_another` makes an equal embedder; it is `None` if the suite was passed an embedder.
    """

    embedder: Embedder
    make_another: Callable[[], Awaitable[Embedder]] | None
    tolerance: float
    max_gap: float | None

    async def rows(self, texts: Sequence[str], embedder: Embedder | None = None) -> Floats:
        """Return the vectors of texts as a 2-d array, so that cases can compare them."""
        rows = np.asarray(await (embedder or self.embedder).embed_documents(texts), np.float64)
        expect(rows.ndim == 2 and len(rows) == len(texts), f"expected {len(texts)} vectors, got shape {rows.shape}")
        return cast("Floats", rows)

    async def rows_alone(self, texts: Sequence[str]) -> Floats:
        """Return the vectors of texts, each embedded in a call of its own."""
        return cast("Floats", np.concatenate([await self.rows([text]) for text in texts]))

    def expect_close(self, rows: Floats, others: Floats, texts: Sequence[str], where: str) -> None:
        """Expect that no number of two vectors of a text differs by more than the tolerance."""
        differences = np.abs(rows - others).max(axis=1, initial=0.0)
        for number, (text, difference) in enumerate(zip(texts, differences, strict=True)):
            subject = f"text {number}, {_short_text(text)}, {where}"
            expected = f"its vector to differ by at most {self.tolerance:g} from that of the text alone"
            expect(difference <= self.tolerance, f"{subject}: expected {expected}, got {difference:.2g}")


CASES: list[Case[EmbedderFixture]] = []


def _short_text(text: str) -> str:
    return ascii(text if len(text) <= 40 else f"{text[:37]}...")


def _expect_unit_rows(rows: Any, texts: Sequence[str], *, zero: bool = True) -> None:
    """Expect finite rows of length 1, or 0 if `zero` allows it."""
    lengths = np.linalg.norm(np.asarray(rows, np.float64), axis=1)
    for text, length in zip(texts, lengths, strict=True):
        is_valid = abs(length - 1) <= _LENGTH_TOLERANCE or (zero and length == 0)
        expect(
            is_valid,
            f"expected length 1{' or 0' if zero else ''} of the vector of {_short_text(text)}, got {length:.6g}",
        )


def _expect_floats(answer: Any, shape: tuple[int, ...]) -> None:
    expect(isinstance(answer, np.ndarray), f"expected a numpy array, got {type(answer).__name__}")
    expect(answer.dtype == np.float32, f"expected float32, got {answer.dtype}")
    expect_equal(answer.shape, shape, "the shape of the answer")


@case(CASES, promise="All methods and attributes of `Embedder` exist.")
async def _the_protocol_is_there_method_by_method(fixture: EmbedderFixture) -> None:
    await fixture.embedder.embed_query(_TEXTS[0])  # some embedders know their width only after a call
    # Since Python 3.12 `isinstance` reads no property, so one that fails is asked for.
    is_embedder = isinstance(fixture.embedder, Embedder) and hasattr(fixture.embedder, "dim")
    expect(is_embedder, f"expected an Embedder, got {type(fixture.embedder).__name__}")


@case(CASES, promise="`id` is a name on one line, `dim` is a positive whole number, and both stay the same.")
async def _id_and_dim_are_there_and_stay_the_same(fixture: EmbedderFixture) -> None:
    before = fixture.embedder.id
    expect(isinstance(before, str) and before.strip(), f"expected an id that is not blank, got {before!r}")
    expect(len(before.splitlines()) == 1, f"expected an id of one line, got {before!r}")
    expect(not PurePath(before).is_absolute(), f"expected an id that names a model, got the path {before!r}")
    dims = set()
    for text in _TEXTS[:3]:
        await fixture.embedder.embed_query(text)
        await fixture.embedder.embed_documents([text])
        expect_equal(fixture.embedder.id, before, "the id after a call")
        dims.add(fixture.embedder.dim)
    expect(len(dims) == 1, f"expected dim to stay the same, got {sorted(dims)}")
    [dim] = dims
    is_count = isinstance(dim, int) and not isinstance(dim, bool) and dim >= 1
    expect(is_count, f"expected dim to be a whole number of at least 1, got {dim!r}")


@case(CASES, "factory", promise="A second embedder made by the same function has the same id and the same vectors.")
async def _another_embedder_made_the_same_way_has_the_same_id_and_the_same_vectors(fixture: EmbedderFixture) -> None:
    other = await cast("Callable[[], Awaitable[Embedder]]", fixture.make_another)()
    expect_equal(other.id, fixture.embedder.id, "the id of another embedder")
    rows, others = await fixture.rows(_TEXTS), await fixture.rows(_TEXTS, other)
    expect_equal(others.shape, rows.shape, "the shape of the vectors of another embedder")
    fixture.expect_close(others, rows, _TEXTS, "from another embedder")


@case(CASES, promise="`embed_documents` returns one float32 row per text, finite and of length 1 or 0.")
async def _documents_give_one_finite_row_of_float32_and_length_one_each(fixture: EmbedderFixture) -> None:
    for texts in (_TEXTS, _ODD_TEXTS):
        rows = await fixture.embedder.embed_documents(texts)
        _expect_floats(rows, (len(texts), fixture.embedder.dim))
        _expect_unit_rows(rows, texts)


@case(CASES, promise="`embed_query` returns one float32 vector, finite and of length 1.")
async def _a_query_gives_one_vector_of_float32_and_length_one(fixture: EmbedderFixture) -> None:
    for text in _TEXTS:
        row = await fixture.embedder.embed_query(text)
        _expect_floats(row, (fixture.embedder.dim,))
        _expect_unit_rows(row[None], [text], zero=False)


@case(CASES, promise="The same query has the same vector twice.")
async def _a_query_asked_twice_gives_the_same_vector(fixture: EmbedderFixture) -> None:
    rows = [np.array(await fixture.embedder.embed_query(_TEXTS[0]))[None] for _ in range(2)]
    fixture.expect_close(rows[0], rows[1], _TEXTS[:1], "as a query, a second time")


@case(CASES, promise="`embed_documents([])` returns an array of shape `(0, dim)`.")
async def _no_texts_give_no_rows_of_the_right_width(fixture: EmbedderFixture) -> None:
    await fixture.embedder.embed_query(_TEXTS[0])
    _expect_floats(await fixture.embedder.embed_documents([]), (0, fixture.embedder.dim))


async def _a_vector_is_that_of_its_text_alone(batches: list[list[str]], fixture: EmbedderFixture) -> None:
    alone: dict[str, Floats] = {}
    for batch in batches:
        rows = await fixture.rows(batch)
        _expect_unit_rows(rows, batch)
        # To embed every text of a large batch alone takes too long: take a sample and the last two.
        step = len(batch) // _SAMPLE + 1
        sample = [number for number in range(len(batch)) if number % step == 0 or number > len(batch) - 3]
        texts = [batch[number] for number in sample]
        for text in {*texts} - alone.keys():
            alone[text] = (await fixture.rows([text]))[0]
        expected = cast("Floats", np.array([alone[text] for text in texts]))
        fixture.expect_close(rows[sample], expected, texts, f"among {len(batch) - 1} others")


CASES += [
    Case(
        f"a_vector_is_that_of_its_text_alone_{how}",
        f"The vector of a text does not depend on its batch: {told}.",
        partial(_a_vector_is_that_of_its_text_alone, batches),
    )
    for how, (told, batches) in _BATCHES.items()
]


@case(CASES, promise="Texts can be a list or a tuple, and are not changed.")
async def _texts_are_read_and_not_changed_as_a_list_or_a_tuple(fixture: EmbedderFixture) -> None:
    texts = list(_TEXTS)
    rows = np.array(await fixture.embedder.embed_documents(texts))
    expect_equal(texts, _TEXTS, "the list of texts after the call")
    fixture.expect_close(await fixture.rows(tuple(_TEXTS)), rows, _TEXTS, "in a tuple")


@case(CASES, promise="Changing a returned array does not change later answers.")
async def _an_answer_is_the_callers_own(fixture: EmbedderFixture) -> None:
    first = await fixture.embedder.embed_documents(list(_TEXTS))
    query = await fixture.embedder.embed_query(_TEXTS[0])
    copy, query_copy = np.array(first), np.array(query)
    for answer in (first, query):
        if answer.flags.writeable:
            answer[:] = 0
    fixture.expect_close(await fixture.rows(_TEXTS), copy, _TEXTS, "after an answer was changed")
    again = await fixture.embedder.embed_query(_TEXTS[0])
    fixture.expect_close(again[None], query_copy[None], _TEXTS[:1], "as a query, after an answer was changed")


@case(CASES, promise="`embed_documents` refuses a single string.")
async def _one_string_in_place_of_a_list_is_refused(fixture: EmbedderFixture) -> None:
    call = fixture.embedder.embed_documents("one string")
    await expect_refusal(EmbedderError, call, "embed_documents('one string')")


@case(CASES, promise="Values that are not strings are refused.")
async def _what_is_no_string_is_refused(fixture: EmbedderFixture) -> None:
    bad: Any
    for bad in ([b"bytes"], [None], ["fine", 3], [["nested"]]):
        await expect_refusal(EmbedderError, fixture.embedder.embed_documents(bad), f"embed_documents({bad!r})")
    for bad in (None, 3, ["a list"]):
        await expect_refusal(EmbedderError, fixture.embedder.embed_query(bad), f"embed_query({bad!r})")


@case(CASES, promise="Texts with an unpaired surrogate are embedded or refused with an `EmbedderError`.")
async def _half_characters_are_embedded_or_refused(fixture: EmbedderFixture) -> None:
    for text in ("bread \ud800 recipe", "\udfff"):
        try:
            rows = await fixture.embedder.embed_documents([text])
        except EmbedderError as error:
            message = str(error)
            expect(message.strip() and "\n" not in message, f"expected an error of one line, got {message!r}")
        else:
            _expect_unit_rows(rows, [text])


@case(CASES, promise="Each of several calls at the same time gets its own answer.")
async def _concurrent_calls_each_get_their_own_answer(fixture: EmbedderFixture) -> None:
    alone = await fixture.rows_alone(_TEXTS)
    queries = [np.array(await fixture.embedder.embed_query(text)) for text in _TEXTS]

    async def documents(shift: int) -> None:
        order = [(number + shift) % len(_TEXTS) for number in range(1 + shift % len(_TEXTS))]
        texts = [_TEXTS[number] for number in order]
        fixture.expect_close(await fixture.rows(texts), alone[order], texts, "during other calls")

    async def query(number: int) -> None:
        row = await fixture.embedder.embed_query(_TEXTS[number])
        fixture.expect_close(row[None], queries[number][None], [_TEXTS[number]], "as a query, during other calls")

    with first_error():
        async with anyio.create_task_group() as group:
            for number in range(2 * len(_TEXTS)):
                group.start_soon(documents, number)
                group.start_soon(query, number % len(_TEXTS))


@case(CASES, promise="The embedder works normally after a call was cancelled.")
async def _a_cancelled_call_leaves_the_embedder_usable(fixture: EmbedderFixture) -> None:
    alone = await fixture.rows_alone(_TEXTS)
    for seconds in (0.0, 0.001, 0.01, 0.05):
        with anyio.move_on_after(seconds):
            await fixture.embedder.embed_documents(_batch(50, f"cancelled after {seconds}"))
        fixture.expect_close(await fixture.rows(_TEXTS), alone, _TEXTS, "after a cancelled call")


@case(CASES, "max_gap", promise="Other tasks can run while a batch is embedded.")
async def _the_event_loop_keeps_running_while_a_batch_is_embedded(fixture: EmbedderFixture) -> None:
    await fixture.embedder.embed_documents(_batch(10, "warms up"))
    limit, gaps = fixture.max_gap or 0.0, []
    for attempt in range(_ATTEMPTS):
        gaps.append(await _longest_gap(fixture.embedder, _batch(100, f"attempt {attempt}")))
        if gaps[-1] <= limit:
            return
    raise AssertionError(f"expected other tasks to wait for at most {limit:g} s, got {min(gaps):.3g} s")


def _batch(count: int, mark: str) -> list[str]:
    return [f"{mark} {number}: {_TEXTS[number % len(_TEXTS)]} {_TEXTS[2]}" for number in range(count)]


async def _longest_gap(embedder: Embedder, texts: list[str]) -> float:
    """Return the longest time in seconds for which a ticking task could not run."""
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


class EmbedderSuite(Exam[EmbedderFixture]):
    """Checks that an embedder keeps the promises of `airw.protocols.Embedder`.

    Run all cases at once, or one case per test of any test framework.

    Args:
        embedder: An embedder, or a function without parameters that makes one. With a function, each case makes its own
            embedder and closes it if it is an async context manager. The suite then also checks that two embedders are
            equal. Pass an embedder if its model is slow to load.
        tolerance: Maximum difference of a number in the vector of a text, in another batch or another call.
        max_gap: Maximum time in seconds for which a batch may keep other tasks from running, in the best of six
            attempts. `None` leaves this case out.

    Raises:
        ArgumentError: If `embedder` is neither, or a bound is not a number of at least 0.

    Example:
        >>> import anyio
        >>> from airw.embedders import HashingEmbedder
        >>> suite = EmbedderSuite(HashingEmbedder)
        >>> print(anyio.run(suite.run).failed)
        ()
    """

    subject: ClassVar[str] = "embedder"
    all_cases: ClassVar[Sequence[Case[Any]]] = CASES

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

    def _offers(self, case: Case[EmbedderFixture]) -> bool:
        offered = {"factory": self._make is not None, "max_gap": self._max_gap is not None}
        return all(offered[need] for need in case.needs)

    @asynccontextmanager
    async def _fixture(self) -> AsyncIterator[EmbedderFixture]:
        async with AsyncExitStack() as stack:
            make = partial(_open, self._make, stack) if self._make else None
            embedder = self._embedder if make is None else await make()
            yield EmbedderFixture(cast("Embedder", embedder), make, self._tolerance, self._max_gap)


async def _open(make: Callable[[], Embedder], stack: AsyncExitStack) -> Embedder:
    embedder = make()
    if isinstance(embedder, AbstractAsyncContextManager):
        await stack.enter_async_context(embedder)
    return embedder


def _check_bound(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ArgumentError(f"{name} must be a number of at least 0, not {value!r}")
    return float(value)
