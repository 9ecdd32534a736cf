"""Cases of `RecordReader`: what was put comes back, aligned with what was asked."""

import math

import numpy as np

from airw.errors import StoreError
from airw.protocols import Store
from airw.testing._exam import expect
from airw.testing._store_tools import StoreCase, expect_equal, expect_refusal, fact, put, record_id
from airw.values import LedgerEntry

__all__ = ["CASES", "ODD_IDS"]

CASES: list[StoreCase] = []
ODD_IDS = [
    "../../evil",
    "a/b",
    "a",
    "A",
    "Z",
    ".",
    "..",
    " ",
    "🦊",
    "é",
    "e\u0301",
    "x" * 10_000,
    "a\nb",
    "%",
    'it\'s; "q"',
]


@fact(CASES, "records")
async def _a_new_store_holds_no_records(store: Store) -> None:
    expect_equal(await store.artifact_ids(), [], "artifact_ids()")
    expect_equal(await store.ledger(), [], "ledger()")
    expect_equal(await store.ledger(["a"]), [None], "ledger(['a'])")
    expect_equal(await store.get_records(["a"]), [None], "get_records(['a'])")
    expect_equal(await store.records_of(["a"]), [None], "records_of(['a'])")
    counts = await store.counts()
    for each in ("artifacts", "records", "resolved", "dangling", "ambiguous", "foreign"):
        expect_equal(counts.get(each), 0, f"counts()[{each!r}]")


@fact(CASES, "records")
async def _records_come_back_aligned_with_the_ids_asked_and_none_where_nothing_is(store: Store) -> None:
    one, two = put("b", "first", "second"), put("a", "third", metadata={"n": [1, {"m": None}], "yes": True})
    await store.apply([one, two])
    asked = [one.records[1].id, "absent", two.records[0].id, one.records[1].id, "\ud800", "nul\0"]
    expected = [one.records[1], None, two.records[0], one.records[1], None, None]
    expect_equal(await store.get_records(asked), expected, "get_records")
    expect_equal(await store.get_records([]), [], "get_records([])")


@fact(CASES, "records")
async def _records_of_artifacts_come_in_plan_order_and_by_kind(store: Store) -> None:
    one, two = put("b", "z", "y", "x", kinds=("title", "chunk")), put("a", "third")
    await store.apply([one, two, put("empty")])
    expected = [list(two.records), None, list(one.records), [], list(two.records)]
    expect_equal(await store.records_of(["a", "absent", "b", "empty", "a"]), expected, "records_of")
    for kinds, positions in ((["chunk"], [1]), (["chunk", "title"], [0, 1, 2]), (["unknown"], []), ([], [])):
        found = await store.records_of(["b", "absent"], kinds=kinds)
        expect_equal(found, [[one.records[at] for at in positions], None], f"records_of(kinds={kinds})")
        first = await store.records_of(["b", "absent"], kinds=kinds, limit=1)
        expect_equal(first, [[one.records[at] for at in positions[:1]], None], f"records_of(kinds={kinds}, limit=1)")
    for limit in (0, 1, 2, 9):
        found = await store.records_of(["a", "b", "absent", "empty"], limit=limit)
        expected = [list(two.records)[:limit], list(one.records)[:limit], None, []]
        expect_equal(found, expected, f"records_of(limit={limit})")


@fact(CASES, "records")
async def _the_ledger_tells_what_was_put_ordered_by_id_unless_ids_are_given(store: Store) -> None:
    await store.apply([put("b", "x", "y", version="7"), put("é"), put("B", "z"), put("a")])
    names = ["B", "a", "b", "é"]
    expect_equal(await store.artifact_ids(), names, "artifact_ids()")
    expect_equal([each and each.artifact_id for each in await store.ledger()], names, "ids in ledger()")
    found, missing, empty = await store.ledger(["b", "absent", "é"])
    stamps = LedgerEntry("b", "7", "embedder", "strategy", "extractor", "source")
    ids = (record_id("b"), record_id("b", 1))
    for name in ("artifact_id", "version", "embedder_id", "strategy_id", "extractor_id", "source"):
        expect_equal(getattr(found, name), getattr(stamps, name), f"{name} in ledger(['b'])")
    expect_equal([found and tuple(found.record_ids), missing], [ids, None], "ledger(['b', 'absent'])")
    expect_equal(empty and tuple(empty.record_ids), (), "record_ids of an artifact without records")


@fact(CASES, "records")
async def _counts_count_artifacts_and_records(store: Store) -> None:
    await store.apply([put("a", "x", "y"), put("b", "z"), put("empty")])
    await store.apply([put("a", "w")], removals=["b"])
    counts = await store.counts()
    expect_equal([counts["artifacts"], counts["records"]], [2, 1], "artifacts and records in counts()")


@fact(CASES, "records")
async def _a_replaced_artifact_keeps_none_of_its_old_records(store: Store) -> None:
    await store.apply([put("a", "alpha", "more alpha", metadata={"tag": "old"}), put("b", "other")])
    new = put("a", "beta", metadata={"tag": "new"}, version="2")
    await store.apply([new])
    found = await store.get_records([record_id("a"), record_id("a", 1)])
    expect_equal(found, [new.records[0], None], "records of a replaced artifact")
    expect_equal(await store.records_of(["a"]), [list(new.records)], "records_of a replaced artifact")
    expect_equal([each and each.version for each in await store.ledger()], ["2", "1"], "versions in ledger()")


@fact(CASES, "records")
async def _a_removed_artifact_is_gone_and_removing_what_is_not_there_is_silent(store: Store) -> None:
    await store.apply([put("a", "alpha"), put("b", "beta")])
    await store.apply([], removals=["a", "never there", "\ud800"])
    expect_equal(await store.artifact_ids(), ["b"], "artifact_ids()")
    expect_equal(await store.records_of(["a"]), [None], "records_of a removed artifact")
    expect_equal(await store.get_records([record_id("a")]), [None], "get_records of a removed artifact")
    expect_equal(await store.ledger(["a"]), [None], "ledger of a removed artifact")


@fact(CASES, "records")
async def _an_artifact_put_and_removed_in_one_call_is_put(store: Store) -> None:
    await store.apply([put("a", "old")])
    new = put("a", "new")
    await store.apply([new], removals=["a"])
    expect_equal(await store.records_of(["a"]), [list(new.records)], "records_of an artifact put and removed at once")


@fact(CASES, "records")
async def _writing_nothing_changes_nothing(store: Store) -> None:
    await store.apply([put("a", "x")])
    await store.apply([])
    expect_equal(await store.artifact_ids(), ["a"], "artifact_ids()")


@fact(CASES, "records")
async def _any_text_can_be_an_id(store: Store) -> None:
    await store.apply([put(name, f"text of {at}") for at, name in enumerate(ODD_IDS)])
    expect_equal(await store.artifact_ids(), sorted(ODD_IDS), "artifact_ids()")
    found = [[each.text for each in group or []] for group in await store.records_of(ODD_IDS)]
    expect_equal(found, [[f"text of {at}"] for at in range(len(ODD_IDS))], "texts of artifacts with odd ids")
    await store.apply([], removals=ODD_IDS[:-1])
    expect_equal(await store.artifact_ids(), ODD_IDS[-1:], "artifact_ids() after removing the others")


@fact(CASES, "records")
async def _empty_texts_odd_texts_and_artifacts_without_records_are_kept(store: Store) -> None:
    texts = ["", "\n \t", "nul \0 inside", "a\r\nb", "🦊 é e\u0301", "long " * 20_000]
    await store.apply([put("a", *texts), put("b")])
    found = [[each.text for each in group or []] for group in await store.records_of(["a", "b"])]
    expect_equal(found, [texts, []], "texts")


@fact(CASES, "records")
async def _ids_are_asked_for_by_the_ten_thousand_in_one_call(store: Store) -> None:
    names = [f"a{at:04}" for at in range(1_000)]
    await store.apply([put(name, f"text {name}") for name in names])
    absent = [f"absent {at}" for at in range(40_000)]  # more than any database takes as separate parameters
    ids = [record_id(name) for name in names]
    found = [each and each.artifact_id for each in await store.get_records([*absent, *ids])]
    expect_equal(found, [*[None] * len(absent), *names], "get_records of 41,000 ids")
    groups = await store.records_of([*absent, *names])
    expect_equal([group and group[0].artifact_id for group in groups], [*[None] * len(absent), *names], "records_of")
    entries = await store.ledger([*absent, *names])
    expect_equal([each and each.artifact_id for each in entries], [*[None] * len(absent), *names], "ledger")
    await store.apply([], removals=[*absent, *names])
    expect_equal(await store.artifact_ids(), [], "artifact_ids() after removing all")


@fact(CASES, "records")
async def _nothing_given_or_received_is_a_handle_on_the_records(store: Store) -> None:
    metadata = {"tags": ["x"]}
    await store.apply([put("a", "text", metadata=metadata)])
    metadata["tags"].append("given")
    [group], [record] = await store.records_of(["a"]), await store.get_records([record_id("a")])
    for each in (*(group or []), record):
        if each is not None and isinstance(each.metadata, dict):
            each.metadata["tags"].append("received")
    (await store.artifact_ids()).clear()
    (await store.ledger()).clear()
    found = [each and each.metadata for each in await store.get_records([record_id("a")])]
    expect_equal(found, [{"tags": ["x"]}], "metadata after changing what was given and received")
    expect_equal(await store.artifact_ids(), ["a"], "artifact_ids() after clearing what was received")


@fact(CASES, "records")
async def _metadata_comes_back_as_json(store: Store) -> None:
    odd = {"pair": (1, 2), "nan": math.nan, "half": np.float32(0.5), 3: "key", "yes": True, "big": 2**63 + 1}
    await store.apply([put("a", "t", metadata={str(key): value for key, value in odd.items()})])
    found = [each and each.metadata for each in await store.get_records([record_id("a")])]
    expected = {"pair": [1, 2], "nan": None, "half": 0.5, "3": "key", "yes": True, "big": 2**63 + 1}
    expect_equal(found, [expected], "metadata")


@fact(CASES, "records")
async def _what_no_store_can_hold_is_refused_in_one_line_and_nothing_of_the_call_is_kept(store: Store) -> None:
    kept = put("kept", "one")
    await store.apply([kept])
    bad = {
        "an artifact put twice": put("good", "twice"),
        "an id with a lone surrogate": put("\ud800", "x"),
        "an id with NUL": put("b\0d", "x"),
        "a text with a lone surrogate": put("bad", "lone \ud800 surrogate"),
        "metadata with a lone surrogate": put("bad", "x", metadata={"k": ["\ud800"]}),
    }
    for what, change in bad.items():
        call = store.apply([put("good", "three"), change], removals=["kept"])
        await expect_refusal(StoreError, call, what)
        expect_equal(await store.records_of(["kept", "good", "bad"]), [list(kept.records), None, None], f"after {what}")
    await store.apply([put("good", "three")])
    expect_equal(await store.artifact_ids(), ["good", "kept"], "artifact_ids() after a good write")


@fact(CASES, "records")
async def _a_record_of_one_artifact_cannot_be_put_as_another_s(store: Store) -> None:
    stranger = put("b", "x")
    change = type(stranger)(put("a", "x").entry, stranger.records, stranger.vectors)
    await expect_refusal(StoreError, store.apply([change]), "a record of 'b' put as one of 'a'", "'a'", "'b'")
    expect(not await store.artifact_ids(), "expected an empty store after the refusal")
