"""`GET /tree` and `GET /path`: links as `airw link` prints them in JSON."""

from airw.links import CorpusGraph
from airw.serving import ServingLimits, app
from airw.views import describe, path_dict, read_tree, walk_links
from tests.support.served import client, notes, serve_notes


async def test_a_tree_is_that_of_the_library():
    async with notes() as corpus, client(app([corpus])) as asking:
        answer = await asking.get("/tree", params={"corpus": "notes", "roots": "bread.md", "direction": "out"})
        expected = await read_tree(walk_links(corpus, ["bread.md"], direction="out"))
        assert answer.json() == expected.to_dict()


async def test_a_path_is_that_of_the_library():
    async with notes() as corpus, client(app([corpus])) as asking:
        answer = await asking.get("/path", params={"corpus": "notes", "start": "bread.md", "end": "rotation.md"})
        path = await CorpusGraph(corpus).path("bread.md", "rotation.md")
        assert answer.json() == path_dict(path, await describe(corpus, path.nodes))
        assert answer.json()["path_length"] == 2


async def test_lists_are_repeated_parameters():
    async with serve_notes() as asking:
        answer = await asking.get("/tree?corpus=notes&roots=keys.md&roots=rotation.md&types=related&max_hops=1")
        assert answer.json()["roots"] == ["keys.md", "rotation.md"]


async def test_no_path_is_an_answer():
    async with serve_notes() as asking:
        params = {"corpus": "notes", "start": "rotation.md", "end": "bread.md", "direction": "out"}
        answer = (await asking.get("/path", params=params)).json()
        assert (answer["found"], answer["reason"]) == (False, "there is no path of any length")


WRONG = {
    "/tree?corpus=notes": (400, "roots must be a list of ids"),
    "/tree?corpus=notes&roots=": (400, "roots must be a list of ids"),
    "/tree?corpus=notes&roots=locks.md": (404, "locks.md"),
    "/tree?corpus=notes&roots=keys.md&max_hops=4": (400, "max_hops must be at most 3 here, not 4"),
    "/tree?corpus=notes&roots=keys.md&max_nodes=11": (400, "max_nodes must be at most 10 here, not 11"),
    "/tree?corpus=notes&roots=keys.md&max_nodes=1e3": (400, "max_nodes must be a whole number, not '1e3'"),
    "/tree?corpus=notes&roots=keys.md&max_nodes=-1": (400, "max_nodes must be a whole number of at least 0"),
    "/tree?corpus=notes&roots=keys.md&weighted=yes": (400, "weighted must be true or false, not 'yes'"),
    "/tree?corpus=notes&roots=keys.md&direction=up": (400, "direction must be one of"),
    "/tree?corpus=notes&roots=keys.md&origins=magic": (400, "magic"),
    "/tree?corpus=notes&roots=keys.md&inverses=x": (400, "/tree takes corpus, roots"),
    "/tree?corpus=notes&roots=keys.md&timeout=soon": (400, "timeout must be a number, not 'soon'"),
    "/tree?corpus=other&roots=keys.md": (404, "there is no corpus 'other' here; known: notes"),
    "/path?corpus=notes&start=keys.md": (400, "end must be a list of ids"),
    "/path?corpus=notes&start=keys.md&end=locks.md": (404, "locks.md"),
    "/path?corpus=notes&start=keys.md&end=bread.md&max_nodes=1": (400, "max_nodes"),
    "/path?corpus=notes&start=keys.md&end=bread.md&timeout=0": (504, "longer than 0 seconds"),
}


async def test_a_wrong_request_is_answered_with_what_would_do():
    async with serve_notes(limits=ServingLimits(max_hops=3, max_node_budget=10)) as asking:
        for target, (status, message) in WRONG.items():
            found = await asking.get(target)
            assert (found.status_code, message in found.json()["detail"]) == (status, True), found.text
