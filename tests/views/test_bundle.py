"""Bundles of whole notes within a budget: contents, left-out notes and store calls."""

import json
import math
import re

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw import build, from_mapping, traverse
from airw._base.frontmatter import note_title, read_frontmatter
from airw.errors import ArgumentError, NoLedgerEntry
from airw.indexing import Notes
from airw.links import FollowedLinks, Inverses, MarkdownLinks
from airw.policies import CollapsedTree
from airw.protocols import RecordsOf
from airw.stores import MemoryStore, Wrapper
from airw.values import LinkFilter
from airw.views import Bundle, bundle, bundle_document, estimate_tokens, walk_links
from tests.support.drawing import examples

VAULT = {
    "index.md": "# Index\n\nSee [[keys]] and [[bread]].\n",
    "keys.md": "---\ntitle: Signing keys\ntype: policy\ntags: [ops]\n"
    "links: [{id: vault.md, type: supports}]\n---\nRotate.\n",
    "vault.md": "# Vault\n\nWhere secrets rest.\n",
    "bread.md": "# Bread\n\nFlour, water, salt.\n",
}


def fields(id, text):
    front = read_frontmatter(text)
    return {**front.fields, "title": note_title(id, front.fields, text, front.body)}


def open_vault(texts, store=None):
    source = from_mapping(
        texts,
        name="vault",
        embedder="light",
        edge_extractor=MarkdownLinks(),
        strategy=Notes(),
        metadata_of=fields,
    )
    return build(source, store=MemoryStore() if store is None else store)


def open_notes(texts):
    return build(from_mapping(texts, name="vault", embedder="light"), store=MemoryStore())


async def read_bundle(corpus, **options):
    """Read a bundle to its end, check that it contains the notes that came, and return it."""
    async with bundle(corpus, **options) as bundling:
        notes = [note async for note in bundling]
    assert list(bundling.bundle.notes) == notes
    return bundling.bundle


def make_edges(*, types=None, exclude=(), origins=None, **more):
    return FollowedLinks(filter=LinkFilter(types=types, exclude=exclude, origins=origins), **more)


def ids(bundle):
    return [note.node.id for note in bundle.notes]


class TestSelectors:
    async def test_named_notes_come_first_then_walked_then_found_ones_without_duplicates(self):
        async with open_vault(VAULT) as corpus:
            walk = walk_links(corpus, ["keys.md"])
            found = await read_bundle(corpus, notes=["vault.md"], walk=walk, query="flour", k=4, mode="lexical")
        assert [(note.node.id, note.via, note.hop) for note in found.notes[:3]] == [
            ("vault.md", "note", None),
            ("keys.md", "walk", 0),
            ("index.md", "walk:keys.md", 1),
        ]
        assert found.notes[3].via == "walk:index.md"  # the search finds bread, too
        assert len(found.notes) == 4
        assert not found.truncated

    async def test_a_note_found_by_a_search_has_its_score(self):
        async with open_vault(VAULT) as corpus:
            found = await read_bundle(corpus, query="flour", mode="lexical")
            [hit] = await corpus.search("flour", mode="lexical")
        assert [(note.node.id, note.via) for note in found.notes] == [("bread.md", f"query:{hit.score:.4f}")]

    async def test_a_search_without_a_match_is_no_error(self):
        async with open_vault(VAULT) as corpus:
            found = await read_bundle(corpus, query="zebra", mode="lexical")
        assert (found.notes, found.truncated) == ((), False)
        assert bundle_document(found) == "Notes of vault\n\nno notes\n"

    async def test_all_missing_notes_are_named_in_one_error(self):
        async with open_vault(VAULT) as corpus:
            with pytest.raises(NoLedgerEntry, match=r"'vault' contains no artifact 'x', 'y', 'z' and 1 more"):
                await read_bundle(corpus, notes=["keys.md", "x", "y", "z", "w"])

    async def test_any_other_walk_is_accepted(self):
        async with open_vault(VAULT) as corpus:
            found = await read_bundle(corpus, walk=traverse("flour", corpus, policy=CollapsedTree(seed_k=1)))
        assert ids(found)[0] == "bread.md"

    async def test_the_text_of_a_note_is_its_body_once_even_if_its_chunks_overlap(self):
        body = "\n\n".join(f"Paragraph {at} says a little more than the one before it." for at in range(100))
        async with open_vault({"long.md": f"---\ntitle: Long\n---\n{body}\n"}) as corpus:
            found = await read_bundle(corpus, notes=["long.md"])
        assert found.notes[0].content.strip() == body

    async def test_an_artifact_without_chunks_is_the_text_of_all_its_surfaces(self):
        async with build(from_mapping({"a": "one two"}, name="plain", embedder="light"), store=MemoryStore()) as corpus:
            assert (await read_bundle(corpus, notes=["a"])).notes[0].content == "one two"


class TestEdges:
    async def test_an_edge_comes_with_the_later_of_its_notes(self):
        async with open_vault(VAULT) as corpus:
            found = await read_bundle(corpus, notes=["bread.md", "vault.md", "keys.md", "index.md"])
        told = [[(edge.source, edge.target, edge.type) for edge in note.edges] for note in found.notes]
        assert told == [
            [],
            [],
            [("keys.md", "vault.md", "supports")],
            [("index.md", "bread.md", "related"), ("index.md", "keys.md", "related")],
        ]

    async def test_a_link_is_named_from_the_note_that_it_comes_with(self):
        async with open_vault(VAULT) as corpus:
            found = await read_bundle(corpus, notes=["keys.md", "vault.md"])
            bare = await read_bundle(corpus, notes=["keys.md", "vault.md"], edges=FollowedLinks(inverses=None))
        assert "\n← supported-by  keys.md\n" in bundle_document(found)
        assert "\n← supports  keys.md\n" in bundle_document(bare)

    @pytest.mark.parametrize(
        ("choice", "count"),
        [
            ({}, 2),
            ({"types": ["supports"]}, 1),
            ({"types": ["supported-by"]}, 1),
            ({"types": ["supported-by"], "direction": "out"}, 0),
            ({"types": ["supported-by"], "direction": "in"}, 1),
            ({"types": ["supports"], "inverses": None, "direction": "in"}, 1),
            ({"types": ["held-by"], "inverses": Inverses({"supports": "held-by"})}, 1),
            ({"exclude": ["supports"]}, 2),  # in the other direction it is supported-by
            ({"exclude": ["supports"], "direction": "out"}, 1),
            ({"origins": ["typed"]}, 1),
            ({"origins": ["inline"]}, 1),
        ],
    )
    async def test_only_edges_that_such_a_walk_could_follow_are_listed(self, choice, count):
        async with open_vault(VAULT) as corpus:
            found = await read_bundle(corpus, notes=["index.md", "keys.md", "vault.md"], edges=make_edges(**choice))
        assert len(found.edges) == count

    @pytest.mark.parametrize(
        ("choice", "said"),
        [
            ({"direction": "up"}, "direction must be"),
            ({"types": "supports"}, "types must be"),
            ({"exclude": [1]}, "exclude must be"),
            ({"origins": 1}, "origins must be"),
            ({"inverses": {}}, "inverses must be"),
        ],
    )
    def test_invalid_filters_of_edges_are_refused_when_they_are_created(self, choice, said):
        with pytest.raises(ArgumentError, match=said):
            make_edges(**choice)


class TestBudget:
    async def test_the_first_note_that_does_not_fit_is_cut_and_a_smaller_one_is_still_added(self):
        texts = {"a.md": "small", "b.md": "long " * 100, "c.md": "small, too", "d.md": "also long " * 100}
        async with open_vault(texts) as corpus:
            found = await read_bundle(corpus, notes=list(texts), max_chars=350)
        assert [(note.node.id, note.is_passage) for note in found.notes] == [
            ("a.md", False), ("b.md", True), ("c.md", False),
        ]  # fmt: skip
        assert re.fullmatch(r"(long )+…", found.notes[1].content)
        assert (found.left_out, found.at_least, found.omitted) == ({"max_chars": 1}, (), ("d.md",))
        document = bundle_document(found)
        assert "# b.md: b\nvia note; only a passage of it\n" in document
        assert document.endswith("left out: max_chars 1\nleft out notes: d.md\n")
        assert 0.98 * 350 <= len(document) <= 350

    async def test_the_best_hit_is_there_with_the_passage_that_matched(self):
        story = "\n\n".join(f"Paragraph {number} is about bread and water." for number in range(400))
        texts = {"long.md": f"{story}\n\nThe zebra abstraction is here, a zebra.\n\n{story}", "b.md": "A zebra, once."}
        async with open_vault(texts) as corpus:
            found = await read_bundle(corpus, query="zebra abstraction", mode="lexical", max_chars=2_000)
        assert [(note.node.id, note.is_passage) for note in found.notes] == [("long.md", True), ("b.md", False)]
        assert "zebra abstraction" in found.notes[0].content
        assert found.notes[0].content.startswith("… ")
        assert found.notes[0].content.endswith(" …")
        assert found.truncated

    @pytest.mark.slow
    async def test_a_passage_gets_at_least_half_of_the_space_and_the_rest_if_nothing_else_needs_it(self):
        texts = {"long.md": "long " * 4_000, **{f"n{number}.md": "word " * 60 for number in range(40)}}
        async with open_vault(texts) as corpus:
            found = await read_bundle(corpus, notes=list(texts), max_chars=10_000)
            alone = await read_bundle(corpus, notes=["long.md"], max_chars=10_000)
        assert 4_500 < len(found.notes[0].content) < 5_400
        assert len(found.notes) == 15
        assert len(found.omitted) == 10
        assert len(alone.notes[0].content) > 9_800
        assert (alone.truncated, alone.left_out, alone.omitted) == (True, {}, ())

    @pytest.mark.slow
    async def test_names_of_notes_that_are_left_out_are_bounded(self):
        texts = {f"{'n' * 150}{number}.md": "word " * 100 for number in range(20)}
        async with open_vault(texts) as corpus:
            found = await read_bundle(corpus, notes=list(texts), max_chars=6_000)
            small = await read_bundle(corpus, notes=list(texts), max_chars=400)
        assert (found.left_out["max_chars"], len(found.omitted)) == (13, 2)
        assert (small.left_out["max_chars"], small.omitted) == (20, ())

    @settings(max_examples=examples(40))
    @given(
        sizes=st.lists(st.integers(0, 60), min_size=1, max_size=12),
        most=st.integers(700, 3000),
        form=st.sampled_from(["text", "json", "records"]),
        links=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=20),
        hops=st.integers(0, 3),
    )
    async def test_no_document_exceeds_its_budget_and_every_note_is_whole_or_a_passage(
        self, sizes, most, form, links, hops
    ):
        texts = {f"n{at}.md": f"# Käse {at}\n\n{'wörter ' * size}" for at, size in enumerate(sizes)}
        for one, other in links:
            if one < len(sizes):
                texts[f"n{one}.md"] += f"\n[[n{other}]]"
        async with open_vault(texts) as corpus:
            notes = sorted(texts)[:3]
            with anyio.fail_after(30):
                found = await read_bundle(
                    corpus,
                    notes=notes,
                    walk=walk_links(corpus, ["n0.md"], max_hops=hops),
                    query="wörter",
                    k=5,
                    form=form,
                    max_chars=most,
                )
                whole = await read_bundle(corpus, notes=ids(found))
        document = bundle_document(found, form)
        assert len(document) <= most
        assert len({note.node.id for note in found.notes}) == len(found.notes)
        assert not {*found.omitted} & {*ids(found)}
        for note, complete in zip(found.notes, whole.notes, strict=True):
            assert note.is_passage == (note.content != complete.content)
            assert note.content.strip("… ") in complete.content
        inside = json.dumps if form == "json" else str.strip
        shown = json.loads(document)["notes"] if form == "json" else document
        for note in found.notes:
            assert note.to_dict() in shown if form == "json" else inside(note.content) in shown
        # If something is left out, either the budget is used up, or no further heading would fit.
        if found.left_out.keys() & {"max_chars"} or any(note.is_passage for note in found.notes):
            assert most - len(document) <= max(0.02 * most, 300)

    @pytest.mark.slow
    @settings(max_examples=examples(60))
    @given(
        sizes=st.lists(st.integers(0, 300), max_size=8),
        at=st.integers(0, 8),
        most=st.integers(700, 4000),
        form=st.sampled_from(["text", "json", "records"]),
        unit=st.sampled_from(["characters", "estimated tokens", "tokens"]),
        word=st.sampled_from(["word ", 'a"b\\n ', "日本語、", "🦊 é\n", "abcdefghij" * 30]),
    )
    async def test_a_bundle_with_a_cut_note_uses_its_budget_to_within_two_percent(  # noqa: PLR0917 - drawn values
        self, sizes, at, most, form, unit, word
    ):
        def count(text):  # like many tokenizers, it joins white space between texts
            return len(re.findall(r"\s+\S?|\w\w?|\W", text))

        measure, options = {
            "characters": (len, {"max_chars": most}),
            "estimated tokens": (estimate_tokens, {"max_tokens": most}),
            "tokens": (count, {"max_tokens": most, "count_tokens": count}),
        }[unit]
        texts = {f"n{number}.md": "word " * size for number, size in enumerate(sizes)}
        names = [*list(texts)[:at], "long.md", *list(texts)[at:]]
        texts["long.md"] = word * 20_000 if len(word) < 10 else word * 400
        async with open_notes(texts) as corpus:
            found = await read_bundle(corpus, notes=names, form=form, **options)
        size = measure(bundle_document(found, form))
        assert size <= most
        assert found.truncated
        assert len(found.notes) + sum(found.left_out.values()) == len(names)
        passages = [note.node.id for note in found.notes if note.is_passage]
        assert len(passages) <= 1
        if passages:
            assert size >= 0.98 * most
        else:  # only where the notes before it leave no space for a heading
            assert most - size < 400
            assert found.left_out
        assert found.omitted or not found.left_out or most < 1_000

    async def test_a_document_of_exactly_the_budget_leaves_nothing_out(self):
        async with open_vault(VAULT) as corpus:
            for form in ("text", "json", "records"):
                whole = bundle_document(await read_bundle(corpus, notes=list(VAULT)), form)
                options = {"notes": list(VAULT), "form": form}
                exact = await read_bundle(corpus, max_chars=len(whole), **options)
                assert (bundle_document(exact, form), exact.truncated) == (whole, False)
                less = await read_bundle(corpus, max_chars=len(whole) - 1, **options)
                assert less.truncated
                assert len(bundle_document(less, form)) < len(whole)

    @settings(max_examples=examples(20))
    @given(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=12), most=st.integers(60, 500))
    async def test_tokens_of_the_whole_document_are_counted(self, sizes, most):
        def count(text):  # like many tokenizers, it joins white space between texts
            return len(re.findall(r"\s+\S?|\w\w?|\W", text))

        texts = {f"n{at}.md": f"# Note {at}\n\n{'words ' * size}" for at, size in enumerate(sizes)}
        async with open_vault(texts) as corpus:
            found = await read_bundle(corpus, notes=sorted(texts), max_tokens=most, count_tokens=count)
        assert count(bundle_document(found)) <= most
        assert len(found.notes) + sum(found.left_out.values()) == len(texts)

    async def test_tokens_that_do_not_add_up_are_counted_for_the_whole_text(self):
        def count(text):
            return (len(text) // 50) ** 2

        texts = {f"n{at}.md": f"# Note {at}\n\n{'words ' * 10}" for at in range(8)}
        async with open_vault(texts) as corpus:
            found = await read_bundle(corpus, notes=sorted(texts), max_tokens=64, count_tokens=count)
        assert count(bundle_document(found)) <= 64
        assert 2 <= len(found.notes) < 8

    async def test_without_a_counter_tokens_are_estimated_and_marked_as_estimated(self):
        async with open_vault(VAULT) as corpus:
            found = await read_bundle(corpus, notes=list(VAULT), max_tokens=70)
        document = bundle_document(found)
        assert document.startswith("Notes of vault; tokens are estimated, one for 4 bytes of UTF-8\n")
        assert estimate_tokens(document) == math.ceil(len(document.encode()) / 4) <= 70
        assert found.to_dict()["tokens"] == "tokens are estimated, one for 4 bytes of UTF-8"
        assert 0 < len(found.notes) < len(VAULT)

    async def test_two_budgets_are_both_kept_and_the_one_that_was_exceeded_is_named(self):
        async with open_vault({"a.md": "a", "b.md": "b " * 50}) as corpus:
            found = await read_bundle(corpus, notes=["a.md", "b.md"], max_chars=10_000, max_tokens=60)
            less = await read_bundle(corpus, notes=["a.md", "b.md"], max_chars=10_000, max_tokens=40)
        assert (ids(found), found.truncated) == (["a.md", "b.md"], False)
        assert (ids(less), less.left_out) == (["a.md"], {"max_tokens": 1})

    async def test_a_large_budget_leaves_nothing_out(self):
        async with open_vault(VAULT) as corpus:
            found = await read_bundle(corpus, walk=walk_links(corpus, ["index.md"]), max_chars=2_000)
        assert len(found.notes) == 4
        assert not found.truncated
        assert "left out" not in bundle_document(found)

    async def test_what_limits_of_the_walk_left_out_is_reported_by_their_names(self):
        async with open_vault(VAULT) as corpus:
            found = await read_bundle(corpus, walk=walk_links(corpus, ["index.md"], max_hops=1))
            late = await read_bundle(corpus, walk=walk_links(corpus, ["index.md"], timeout=0))
        assert (ids(found), found.left_out) == (["index.md", "bread.md", "keys.md"], {"max_hops": 1})
        assert late.unknown == ("timeout",)

    @pytest.mark.slow
    async def test_a_full_budget_stops_the_walk(self):
        texts = {f"n{at:04}.md": f"[[n{at + 1:04}]] {'text ' * 10}" for at in range(500)}
        async with open_vault(texts) as corpus:
            walk = walk_links(corpus, ["n0000.md"], max_hops=None)
            found = await read_bundle(corpus, walk=walk, max_chars=1_000)
        assert (walk.summary.stop, walk.summary.committed < 60) == ("closed", True)
        assert found.at_least == ("max_chars",)
        assert found.left_out["max_chars"] >= 1

    @pytest.mark.slow
    async def test_after_many_notes_in_a_row_that_do_not_fit_no_more_are_tried(self):
        texts = {f"n{at:04}.md": "" if at == 400 else "long " * 200 for at in range(500)}
        async with open_vault(texts | {"a.md": "small"}) as corpus:
            found = await read_bundle(corpus, notes=["a.md", *sorted(texts)], max_chars=500)
        assert ids(found) == ["a.md", "n0000.md"]
        assert (found.left_out, found.at_least) == ({"max_chars": 499}, ())  # all of them are known
        assert found.omitted == ("n0001.md", "n0002.md", "n0003.md", "n0004.md")

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({"max_chars": 10}, "max_chars must be at least"),
            ({"max_tokens": 3}, "max_tokens must be at least"),
            ({"max_chars": 0}, "max_chars must be"),
            ({"max_chars": True}, "max_chars must be"),
            ({"max_chars": 10.5}, "max_chars must be"),
            ({"count_tokens": len}, "needs max_tokens"),
            ({"max_tokens": 100, "count_tokens": 4}, "count_tokens must be"),
            ({"max_tokens": 100, "count_tokens": lambda _: -1}, "the result of count_tokens"),
            ({"k": -1}, "k must be"),
            ({"form": "xml"}, "form must be"),
            ({"notes": "keys.md"}, "notes must be a list"),
            ({"notes": [1]}, "notes must be a list"),
            ({"query": 1}, "query must be"),
            ({"walk": ["keys.md"]}, "walk must be"),
        ],
    )
    async def test_invalid_arguments_are_refused_by_the_call(self, options, said):
        async with open_vault(VAULT) as corpus:
            with pytest.raises(ArgumentError, match=said):
                bundle(corpus, **options)


class TestStream:
    async def test_the_first_note_comes_before_the_others_are_read(self):
        async with open_vault(VAULT) as corpus:
            walk = walk_links(corpus, ["index.md"])
            async with bundle(corpus, walk=walk) as bundling:
                assert (await anext(bundling)).node.id == "index.md"
                assert bundling.bundle.notes[0].node.id == "index.md"
                assert len(bundling.bundle.notes) == 1
                assert walk.summary is None
            assert walk.summary.stop == "closed"
            assert [note async for note in bundling] == []

    @pytest.mark.slow
    async def test_many_notes_need_few_store_calls(self):
        calls = []

        class Noting(Wrapper):
            async def read(self, *requests):
                calls.extend(len(request.artifact_ids) for request in requests if isinstance(request, RecordsOf))
                return await super().read(*requests)

        texts = {f"n{at:04}.md": "text" for at in range(300)}
        async with open_vault(texts, Noting(MemoryStore())) as corpus:
            calls.clear()
            await read_bundle(corpus, notes=sorted(texts))
        assert calls == [1, 2, 4, 8, 16, 32, 64, 64, 64, 45]

    async def test_only_one_task_may_read_at_a_time(self):
        async with open_vault(VAULT) as corpus, bundle(corpus, walk=walk_links(corpus, ["index.md"])) as bundling:
            errors = []

            async def take():
                try:
                    await anext(bundling)
                except RuntimeError as error:
                    errors.append(str(error))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(take)
                tasks.start_soon(take)
        assert len(errors) == 1
        assert "iterate in one task" in errors[0]

    async def test_a_cancelled_request_ends_it(self):
        async with open_vault(VAULT) as corpus:
            bundling = bundle(corpus, walk=walk_links(corpus, ["index.md"]))
            with anyio.CancelScope() as scope:
                scope.cancel()
                await anext(bundling)
            assert [note async for note in bundling] == []

    async def test_the_bundle_contains_the_notes_read_so_far(self):
        async with open_vault(VAULT) as corpus, bundle(corpus, notes=list(VAULT)) as bundling:
            assert bundling.bundle == Bundle("vault")
            await anext(bundling)
            assert ids(bundling.bundle) == ["index.md"]


class TestForms:
    async def test_text_has_a_heading_a_line_about_it_its_links_and_its_text(self):
        async with open_vault(VAULT) as corpus:
            found = await read_bundle(corpus, walk=walk_links(corpus, ["vault.md"], max_hops=1), max_chars=1_000)
        assert bundle_document(found) == (
            "Notes of vault\n\n"
            "# vault.md: Vault\nhop 0; via walk\n\n# Vault\n\nWhere secrets rest.\n\n"
            "# keys.md: Signing keys\ntype policy; tags ops; hop 1; via walk:vault.md\n→ supports  vault.md\n\n"
            "Rotate.\n\n"
            "left out: max_hops 1\n"
        )

    async def test_json_is_one_object(self):
        async with open_vault(VAULT) as corpus:
            found = await read_bundle(corpus, walk=walk_links(corpus, ["vault.md"], max_hops=1))
        told = json.loads(bundle_document(found, "json"))
        assert list(told) == [
            "store",
            "truncated",
            "left_out",
            "at_least",
            "unknown",
            "omitted",
            "notes_count",
            "notes",
            "edges",
        ]
        assert (told["store"], told["truncated"], told["left_out"], told["notes_count"]) == (
            "vault",
            True,
            {"max_hops": 1},
            2,
        )
        assert told["notes"][1] == {
            "id": "keys.md",
            "title": "Signing keys",
            "type": "policy",
            "tags": ["ops"],
            "path": None,
            "hop": 1,
            "via": "walk:vault.md",
            "content": "Rotate.",
            "content_truncated": False,
        }
        assert told["edges"] == [{"from": "keys.md", "to": "vault.md", "type": "supports", "source": "typed"}]

    async def test_records_mark_where_a_text_begins_and_ends(self):
        texts = {"a b.md": "---\ntitle: 'An \"a\"'\n---\nB-END a%20b.md\nmore\n", "c.md": "[[a b]]\n"}
        async with open_vault(texts) as corpus:
            found = await read_bundle(corpus, notes=list(texts), max_chars=1_000)
        assert bundle_document(found, "records").splitlines() == [
            "H airw=1 records=1 store=vault mode=context notes=2 truncated=false",
            'N a%20b.md - "An \\"a\\"" tags=- path=- hop=- via=note',
            "B a%20b.md lines=2",
            "B-END a%20b.md",
            "more",
            "B-END a%20b.md",
            'N c.md - "c" tags=- path=- hop=- via=note',
            "E c.md related a%20b.md inline",
            "B c.md lines=1",
            "[[a b]]",
            "B-END c.md",
        ]
