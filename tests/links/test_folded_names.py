"""A link in another case leads to the one note that it fits, and never to a guess."""

import tarfile

import pytest
from hypothesis import given, settings, strategies as st

from airw import build, from_mapping, from_notes
from airw.links import CorpusGraph, MarkdownLinks, TitleMentions
from airw.protocols import ArtifactIds, ask
from airw.stores import MemoryStore
from airw.values import Artifact
from tests.support.archives import unpack
from tests.support.drawing import examples
from tests.support.link_corpora import note, vault


def open_notes(texts):
    # A given root, as only builds look for one.
    source = from_mapping(texts, name="notes", embedder="light", edge_extractor=MarkdownLinks(root=""))
    return build(source, store=MemoryStore())


async def edges_of(corpus, ids):
    return [(edge.source, edge.target) for edges in await CorpusGraph(corpus).neighbors(ids) for edge in edges]


async def states_of(corpus):
    unresolved = await CorpusGraph(corpus).unresolved_links()
    return [(each.link.target_ref, each.state, each.candidates) for each in unresolved]


@pytest.mark.parametrize(
    "link",
    [
        "[t](/functions/lang/translate/)",
        "[t](functions/lang/translate)",
        "[t](Functions/Lang/TRANSLATE.md#use)",
        "[t](%46unctions/lang/translate.MD)",
        "[[/functions/LANG/translate|t]]",
        "[t][r]\n\n[r]: functions/lang/translate.md",
    ],
)
async def test_a_path_as_a_site_publishes_it_leads_to_the_file(link, tmp_path):
    async with vault(tmp_path, {"functions/lang/Translate": note(), "start": link}) as corpus:
        assert await edges_of(corpus, ["start.md"]) == [("start.md", "functions/lang/Translate.md")]
        assert await CorpusGraph(corpus).resolve(["FUNCTIONS/LANG/TRANSLATE.MD"]) == ["functions/lang/Translate.md"]


async def test_a_declared_name_is_compared_with_titles_and_ids_in_any_case(tmp_path):
    notes = {"keys": note(title="Signing keys"), "a": note("SIGNING Keys"), "b": note("KEYS")}
    async with vault(tmp_path, notes) as corpus:
        assert await edges_of(corpus, ["a.md", "b.md"]) == [("a.md", "keys.md"), ("b.md", "keys.md")]


async def test_of_two_notes_that_differ_by_case_the_name_as_written_counts_and_another_case_is_ambiguous():
    texts = {"Keys.md": "", "keys.md": "", "a.md": "[1](Keys.md) [2](KEYS.md) [3](keys.md) [4](kays.md)"}
    async with open_notes(texts) as corpus:
        assert await edges_of(corpus, ["a.md"]) == [("a.md", "Keys.md"), ("a.md", "keys.md")]
        assert await states_of(corpus) == [
            ("KEYS.md", "ambiguous", ("Keys.md", "keys.md")),
            ("kays.md", "dangling", ()),
        ]
        await corpus.delete(["Keys.md"])
        assert await states_of(corpus) == [("kays.md", "dangling", ())]


async def test_notes_with_mentions_fold_case_too():
    pytest.importorskip("ahocorasick_rs")
    notes = [Artifact("Sort.md", "# Merge sort"), Artifact("a.md", "[1](sort.md)")]
    assert TitleMentions().over(notes).extract(notes[1], {}).fold_case


async def test_a_link_to_its_own_note_in_another_case_is_no_edge():
    async with open_notes({"Keys.md": "[1](keys.md)", "a.md": "[1](KEYS.MD)"}) as corpus:
        assert await edges_of(corpus, ["Keys.md", "a.md"]) == [("a.md", "Keys.md")]
        assert await states_of(corpus) == []


IDS = ["Keys.md", "keys.md", "In/Keys.md", "in/keys.md"]
PATHS = st.sampled_from(["/Keys.md", "/keys", "/KEYS.md", "/in/KEYS.md", "/IN/keys", "/In/Keys.md", "/in/keys/"])
TEXTS = st.lists(PATHS, max_size=3).map(lambda paths: "\n".join(f"[t]({path})" for path in paths))


def find_target(path, ids):
    """Return what a path means by the rule, or `None`."""
    written = path.strip("/").removesuffix(".md")
    exact = [id for id in ids if id == f"{written}.md"]
    fitting = exact or [id for id in ids if id.lower() == f"{written}.md".lower()]
    return fitting[0] if len(fitting) == 1 else None


@pytest.mark.slow
@given(st.lists(st.tuples(st.dictionaries(st.sampled_from(IDS), TEXTS), st.sets(st.sampled_from(IDS))), max_size=4))
@settings(max_examples=examples(30))
async def test_after_any_changes_the_edges_are_those_of_a_fresh_build_and_of_the_rule(steps):
    final = {}
    async with open_notes({"start.md": "[t](/KEYS)"}) as corpus:
        for texts, removals in steps:
            await corpus.upsert(texts)
            await corpus.delete(removals & (final | texts).keys())
            final = {id: text for id, text in (final | texts).items() if id not in removals}
        changed = await edges_of(corpus, [*IDS, "start.md"])
    final["start.md"] = "[t](/KEYS)"
    async with open_notes(final) as fresh:
        assert changed == await edges_of(fresh, [*IDS, "start.md"])
    meant = {(id, find_target(line[4:-1], final)) for id, text in final.items() for line in text.splitlines()}
    assert set(changed) == {(id, target) for id, target in meant if target not in (None, id)}


@pytest.mark.slow
@pytest.mark.asyncio_only  # names are the same on every event loop
@pytest.mark.parametrize("name", ["md-dendron", "md-eips", "md-notes"])
async def test_links_survive_if_all_files_of_a_collection_are_renamed_to_another_case(data, name, tmp_path):
    with tarfile.open(data / name / f"{name}.tar.gz") as archive:
        unpack(archive, tmp_path)
    paths = sorted((tmp_path / name).rglob("*.md"))
    for path in paths[300:]:  # a part of a collection shows each form of its links
        path.unlink()
    before = await read_edges(tmp_path / name)
    assert len(before) > 100
    for path in paths[:300]:
        path.rename(path.with_name(path.stem.swapcase() + ".md"))
    after = await read_edges(tmp_path / name)
    # Of each path of the original, only the file name is in another case.
    assert {(rename(source), rename(target)) for source, target in before} == after


def rename(id):
    folder, slash, file = id.rpartition("/")
    return f"{folder}{slash}{file.removesuffix('.md').swapcase()}.md"


async def read_edges(folder):
    async with build(from_notes(folder, embedder="light"), store=MemoryStore()) as corpus:
        return set(await edges_of(corpus, await ask(corpus.store, ArtifactIds())))
