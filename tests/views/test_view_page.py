"""The page of a walk in a real browser, and its text without a browser."""

import json
import random
import re
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import combinations, count, pairwise
from threading import Thread

import anyio
import pytest
from hypothesis import given, strategies as st
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from airw import build, from_mapping
from airw.embedders import HashingEmbedder
from airw.links import INVERSES, LinkPath, MarkdownLinks
from airw.stores import MemoryStore
from airw.values import Edge
from airw.views import NodeView, TreeLink, WalkTree, path_page, tree_page
from tests.support.browser import chromium, complaints, requests, visit

pytestmark = pytest.mark.slow

ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
HOSTILE = [
    "<img src=x onerror=hacked=1>",
    "</script><script>hacked=1</script>",
    "<!--<script>",
    "--></style><svg onload=hacked=1>",
    "\"'><b onmouseover=hacked=1>",
    "javascript:hacked=1",
    "$css ${script} $$",
    "]]>&lt;&amp;\u2028\u2029\u202egnp.exe\u2066",
    "\x00\x07\n\ud800",
    "&quot; onfocus=hacked=1 autofocus x=",
    "x" * 10_000,
]


def edges_and_steps(links):
    """Return stored edges, and the steps of a tree, from `(parent, child, type, against)`."""
    hops, steps = {}, []
    for parent, child, type_, against in links:
        hops[child] = hops.get(parent, 0) + 1
        edge = Edge(child, parent, type_) if against else Edge(parent, child, type_)
        steps.append(TreeLink(parent, child, hops[child], INVERSES.name_of(edge, parent), edge))
    return [step.edge for step in steps], steps


def small_tree(**changed) -> WalkTree:
    edges, steps = edges_and_steps(
        [("a", "b", "supports", False), ("a", "c", "part-of", True), ("c", "d", "related", False)]
    )
    seen = [TreeLink("d", "a", 0, "answers", Edge("d", "a", "answers"))]
    seen += [TreeLink("a", "b", 1, "refines", Edge("a", "b", "refines"))]
    nodes = [NodeView("a", "Alpha", "concept", ("x", "y"), "notes/a.md"), NodeView("b", "Beta"), NodeView("c")]
    nodes += [NodeView("d", "Delta")]
    given = {"left_out": {"max_hops": 1234, "max_fanout": 2}, "at_least": ["max_fanout"], "unknown": ["max_edges"]}
    told = {"unlisted": {"d": 7}, **given} | changed
    return WalkTree(["a"], "both", 3, nodes, [*edges, *(link.edge for link in seen)], steps, seen, **told)


def large_tree(size, *, fan=6, seen=300, seed=1) -> WalkTree:
    """Return a tree in the order of its walk, with edges between any two artifacts."""
    chance = random.Random(seed)
    ids = [f"n{number}" for number in range(size)]
    links = [(ids[(n - 1) // fan], ids[n], chance.choice(["supports", "part-of"]), n % 3 == 0) for n in range(1, size)]
    edges, steps = edges_and_steps(links)
    pairs = [chance.sample(ids, 2) for _ in range(seen)]
    references = [TreeLink(a, b, 0, "cites", Edge(a, b, "cites")) for a, b in dict.fromkeys(map(tuple, pairs))]
    nodes = [NodeView(id, f"Title of {id} {'and more ' * chance.randrange(4)}") for id in ids]
    return WalkTree(ids[:1], "out", None, nodes, [*edges, *(link.edge for link in references)], steps, references)


def chain(size) -> WalkTree:
    ids = [f"n{number}" for number in range(size)]
    edges, steps = edges_and_steps([(one, other, "next", False) for one, other in pairwise(ids)])
    return WalkTree(ids[:1], "out", None, [NodeView(id) for id in ids], edges, steps)


def hostile_tree() -> WalkTree:
    ids = [f"{number}{text}" for number, text in enumerate(HOSTILE)]
    edges, steps = edges_and_steps([(ids[0], id, text, n % 2) for n, (id, text) in enumerate(zip(ids, HOSTILE)) if n])  # noqa: B905
    nodes = [NodeView(id, text, text, (text, text), text) for id, text in zip(ids, HOSTILE, strict=True)]
    return WalkTree(ids[:1], "both", 3, nodes, edges, steps)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("browser") / "profile") as running:
        yield running


@pytest.fixture
def look(browser, tmp_path):
    """Return a function that opens a page.

    Check that the page causes no complaints and no other requests.
    """
    opened = []

    def open_page(html: str, *, size=(1280, 800)):
        path = tmp_path / f"{len(opened)}.html"
        path.write_text(html, encoding="utf-8")
        opened.append(path.as_uri())
        browser.set_window_size(*size)
        visit(browser, path.as_uri())
        return browser

    requests(browser)
    complaints(browser)
    yield open_page
    assert complaints(browser) == []
    assert requests(browser) == opened


def run(browser, script, *args):
    return browser.execute_script(script, *args)


def texts(browser, selector) -> list[str]:
    return run(
        browser,
        "return [...document.querySelectorAll(arguments[0])].map(each => each.textContent.trim().toWellFormed())",
        selector,
    )


def one(browser, selector):
    return browser.find_element(By.CSS_SELECTOR, selector)


def node(browser, place):
    return one(browser, f'.node[data-place="{place}"] rect')


def lit(browser) -> list[str]:
    return sorted(texts(browser, ".node.on text"))


def style(browser, selector, name) -> str:
    return run(browser, "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]", selector, name)


def hands(browser) -> ActionChains:
    return ActionChains(browser, duration=0)  # milliseconds for each move of the mouse


def press(browser, *keys):
    hands(browser).send_keys(*keys).perform()


def point_at(browser, element):
    hands(browser).move_to_element(element).perform()


def view(browser) -> str:
    return one(browser, "#view").get_attribute("transform")


def boxes(browser, selector="#nodes text"):
    """Return the bounding boxes of visible elements as (left, right, top, bottom)."""
    script = """return [...document.querySelectorAll(arguments[0])].map(each => each.getBoundingClientRect())
        .filter(box => box.width).map(box => [box.left, box.right, box.top, box.bottom])"""
    return run(browser, script, selector)


def overlaps(found) -> list:
    return [
        (one, other)
        for one, other in combinations(found, 2)
        if one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]
    ]


def test_every_artifact_and_every_edge_of_a_real_walk_is_drawn_once(look):
    from airw.views import read_tree, walk_links

    notes = {f"{n}.md": f"# Note {n}\n\nSee [[{n + 1}]], [[{n * 3 % 8}]] and [[0]]." for n in range(8)}

    async def read_walk():
        source = from_mapping(notes, name="notes", embedder=HashingEmbedder(), edge_extractor=MarkdownLinks())
        async with build(source, store=MemoryStore()) as corpus:
            return await read_tree(walk_links(corpus, ["3.md"], max_hops=2))

    tree = anyio.run(read_walk)
    page = look(tree_page(tree))
    assert len(tree.references) > 3
    assert texts(page, ".node").count("3.md") == 1
    assert sorted(texts(page, ".node")) == sorted(each.title or each.id for each in tree.nodes)
    assert len(texts(page, "path.link")) == len(tree.edges) + 2  # and two in the legend
    assert len(texts(page, "#links path.reference")) == len(tree.references)
    assert sorted(texts(page, "#links text")) == sorted(edge.type for edge in tree.edges)


def test_tree_links_are_solid_and_references_dashed(look):
    page = look(tree_page(small_tree()))
    assert style(page, "#links path:not(.reference)", "strokeDasharray") == "none"
    assert style(page, "#links path.reference", "strokeDasharray") != "none"
    assert style(page, "#links path.reference", "stroke") != style(page, "#links path:not(.reference)", "stroke")


@pytest.mark.parametrize("is_round", [False, True])
def test_arrows_show_the_stored_direction(look, is_round):
    page = look(tree_page(small_tree(), title="Arrows"))
    if is_round:
        press(page, "r")
    ends = """
        const box = place => document.querySelector(`[data-place="${place}"] rect`).getBoundingClientRect();
        const off = (at, from, to) => Math.max(from - at, 0, at - to);
        const gap = ({x, y}, place, b = box(place)) => Math.hypot(off(x, b.left, b.right), off(y, b.top, b.bottom));
        return [...document.querySelectorAll("#links path")].map(path => {
            const at = length => path.getPointAtLength(length).matrixTransform(path.getScreenCTM());
            const near = point => "abcd"[[0, 1, 2, 3].sort((a, b) => gap(point, a) - gap(point, b))[0]];
            return [near(at(0)), near(at(path.getTotalLength())), path.nextSibling.textContent]; })"""
    assert sorted(map(tuple, run(page, ends))) == sorted(
        (edge.source, edge.target, edge.type) for edge in small_tree().edges
    )
    assert "arrow" in style(page, "#links path", "markerEnd")


def test_the_line_on_top_describes_the_walk_and_what_was_left_out(look):
    page = look(tree_page(small_tree()))
    assert one(page, "h1").text == page.title == "Links of Alpha"
    assert one(page, "#facts").text == "From a · links both ways · at most 3 hops · 4 artifacts · 5 links"
    left_out = one(page, "#left-out").text
    assert left_out == "left out: max_edges unknown, max_fanout at least 2, max_hops 1234"
    assert not one(page, "#undrawn").is_displayed()
    look(tree_page(small_tree(left_out={}, at_least=(), unknown=()), title="Mine"))
    assert (one(page, "h1").text, one(page, "#left-out").text) == ("Mine", "nothing left out")
    look(tree_page(small_tree(left_out={}, at_least=(), unknown=(), timed_out=True)))
    assert one(page, "#left-out").text == "left out: timeout unknown"


def test_pointing_at_an_artifact_describes_it_and_highlights_its_links(look):
    page = look(tree_page(small_tree()))
    assert not one(page, "#card").is_displayed()
    point_at(page, node(page, 0))
    assert texts(page, "#card h2, #card dd") == ["Alpha", "a", "concept", "x, y", "notes/a.md", "0"]
    assert sorted(texts(page, "#card li")) == ["refines → Beta", "supports → Beta", "← answers Delta", "← part-of c"]
    assert lit(page) == ["Alpha", "Beta", "Delta", "c"]
    point_at(page, node(page, 1))
    assert lit(page) == ["Alpha", "Beta"]
    assert sorted(texts(page, "#links text.on")) == ["refines", "supports"]
    point_at(page, node(page, 3))
    assert texts(page, "#card dt")[-1] == "left out here"
    assert texts(page, "#card dd")[-1] == "7"
    point_at(page, one(page, "h1"))
    assert lit(page) == []
    assert not one(page, "#card").is_displayed()


def test_a_click_pins_an_artifact_and_dims_the_rest_until_escape(look):
    page = look(tree_page(small_tree()))
    node(page, 1).click()
    point_at(page, node(page, 3))
    assert lit(page) == ["Alpha", "Beta"]
    assert float(style(page, '[data-place="3"]', "opacity")) < 0.5
    assert float(style(page, '[data-place="0"]', "opacity")) == 1
    press(page, Keys.ESCAPE)
    assert float(style(page, '[data-place="3"]', "opacity")) == 1
    node(page, 1).click()
    node(page, 1).click()
    assert style(page, "#drawing", "cursor") == "grab"
    assert "pinned" not in one(page, "#drawing").get_attribute("class").split()


def test_keys_move_through_the_drawing_and_pin_artifacts(look):
    page = look(tree_page(small_tree()))
    focused = "return document.activeElement.getAttribute('aria-label')"
    one(page, "#listed").click()
    one(page, "#listed").click()
    press(page, Keys.TAB)
    assert run(page, focused) == "Alpha, root, 4 links"
    assert lit(page) == ["Alpha", "Beta", "Delta", "c"]
    press(page, Keys.ARROW_RIGHT)
    assert run(page, focused) == "Beta, hop 1, 2 links"
    press(page, Keys.ARROW_DOWN, Keys.ARROW_RIGHT)
    assert run(page, focused) == "Delta, hop 2, 2 links"
    press(page, Keys.ENTER, Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    assert run(page, focused).startswith("Alpha")
    assert texts(page, ".pinned .at text") == ["Delta"]
    press(page, Keys.ESCAPE)
    assert texts(page, ".pinned .at text") == []
    press(page, "r")
    assert run(page, focused).startswith("Alpha")
    point_at(page, node(page, 3))
    press(page, Keys.ARROW_RIGHT)
    assert texts(page, "#card h2") == ["Beta"]


def test_wheel_drag_and_keys_move_the_view(look):
    page = look(tree_page(small_tree()))
    seen = [view(page)]
    for act in (
        lambda: press(page, "+"),
        lambda: press(page, "-", "-"),
        lambda: hands(page).drag_and_drop_by_offset(one(page, "#drawing"), 0, -90).perform(),
        lambda: hands(page).scroll_from_origin(ScrollOrigin.from_element(node(page, 0)), 0, -300).perform(),
        lambda: one(page, "#closer").click(),
        lambda: one(page, "#farther").click() or one(page, "#farther").click(),
    ):
        act()
        assert view(page) not in seen
        seen.append(view(page))
    assert lit(page) == []
    press(page, "0")
    assert view(page) == seen[0]


def test_dragging_from_an_artifact_moves_the_view_and_neither_pins_nor_unpins(look):
    page = look(tree_page(small_tree()))
    before = view(page)
    hands(page).drag_and_drop_by_offset(node(page, 3), -60, 90).perform()
    assert view(page) != before
    assert texts(page, ".pinned") == []
    node(page, 3).click()
    hands(page).drag_and_drop_by_offset(node(page, 1), 60, -90).perform()
    assert texts(page, ".pinned .at text") == ["Delta"]


def test_the_wheel_zooms_around_the_pointer(look):
    page = look(tree_page(small_tree()))
    middle = (
        "const b = arguments[0].getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2, b.width]"
    )
    before = run(page, middle, node(page, 3))
    hands(page).scroll_from_origin(ScrollOrigin.from_element(node(page, 3)), 0, -400).perform()
    after = run(page, middle, node(page, 3))
    assert after[2] > 1.5 * before[2]
    assert after[:2] == pytest.approx(before[:2], abs=2)


def test_search_finds_titles_and_ids_and_enter_moves_to_the_artifact(look):
    page = look(tree_page(large_tree(50, fan=49, seen=0)))
    press(page, "/")
    press(page, "TITLE OF N4")
    assert one(page, "#found").text == "11 found"
    assert len(texts(page, ".node.hit")) == 11
    assert float(style(page, ".node:not(.hit)", "opacity")) < 0.5
    press(page, "7", Keys.ENTER)
    assert [text.split(" and")[0].strip() for text in texts(page, ".pinned .at.hit text")] == ["Title of n47"]
    press(page, Keys.ESCAPE)
    assert (one(page, "#found").text, texts(page, ".hit"), texts(page, ".pinned .at")) == ("", [], [])
    one(page, "#search").send_keys("no such thing")
    assert one(page, "#found").text == "0 found"
    press(page, Keys.ENTER)
    look(tree_page(small_tree()))
    one(page, "#search").send_keys("c")
    assert texts(page, ".hit") == ["c"]


def test_a_double_click_folds_what_is_below_and_opens_it_again(look):
    page = look(tree_page(small_tree()))
    hands(page).double_click(node(page, 2)).perform()
    assert sorted(texts(page, ".node")) == ["Alpha", "Beta", "c +1"]
    assert len(texts(page, "#links path")) == 3
    assert one(page, "#undrawn").text.startswith("Drawn: 3 of 4 artifacts, 3 of 5 links, ")
    assert one(page, '[data-place="2"]').get_attribute("aria-expanded") == "false"
    one(page, "#search").send_keys("delta")
    assert one(page, "#found").text == "1 found, 1 of them not drawn"
    one(page, "#search").clear()
    hands(page).double_click(node(page, 2)).perform()
    assert sorted(texts(page, ".node")) == ["Alpha", "Beta", "Delta", "c"]
    press(page, Keys.ARROW_LEFT, " ")
    assert texts(page, ".node") == ["Alpha +3"]


def test_hostile_titles_ids_tags_and_types_are_only_text(look):
    page = look(tree_page(hostile_tree(), title=HOSTILE[1]))
    for place in range(len(HOSTILE)):
        press(page, Keys.ESCAPE)
        run(page, "document.querySelector(`[data-place='${arguments[0]}']`).focus()", place)
        assert texts(page, "#card h2") != []
        assert ACTS.findall(run(page, "return document.body.textContent + document.body.outerHTML")) == []
    for text in HOSTILE:
        one(page, "#search").clear()
        one(page, "#search").send_keys(text[:20].strip("\x00\x07\n\ud800") or "8")
        assert not one(page, "#found").text.startswith("0 ")
    one(page, "#listed").click()
    assert run(page, "return typeof hacked") == "undefined"
    assert run(page, "return document.querySelectorAll('img, b, main svg svg, main script').length") == 0
    assert texts(page, "#drawing [data-place='0'] text") == [HOSTILE[0]]
    assert page.title == HOSTILE[1]
    assert run(page, "return document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture
def beacon():
    """Run a server on the loopback interface; return its address and the requested paths."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

        def log_message(self, *about):
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()
        thread.join()


ATTEMPTS = """
const away = arguments[0], body = document.body;
const add = (tag, about) => body.append(Object.assign(document.createElement(tag), about));
addEventListener("securitypolicyviolation", event => (window.stopped ??= []).push(event.effectiveDirective));
add("img", {src: `${away}/x.png`}); add("script", {textContent: "hacked = 1"}); add("script", {src: `${away}/x.js`});
add("style", {textContent: "h1 { color: red }"}); add("link", {rel: "stylesheet", href: `${away}/x.css`});
add("iframe", {src: `${away}/frame`}); body.insertAdjacentHTML("beforeend", "<p onclick='hacked = 1' id=trap></p>");
trap.click(); fetch(`${away}/fetched`).catch(() => {}); navigator.sendBeacon(`${away}/beacon`);
"""


def test_the_policy_stops_what_a_page_must_not_do(browser, beacon, tmp_path):
    """Even if text from a title became markup, nothing would run, and nothing would leave."""
    address, asked = beacon
    path = tmp_path / "page.html"
    path.write_text(tree_page(small_tree()), encoding="utf-8")
    visit(browser, path.as_uri())
    run(browser, ATTEMPTS, address)
    wanted = {"img-src", "script-src-elem", "style-src-elem", "frame-src", "connect-src", "script-src-attr"}
    stopped = "return window.stopped ?? []"
    WebDriverWait(browser, 20, poll_frequency=0.02).until(lambda _: set(run(browser, stopped)) == wanted)
    assert run(browser, "return typeof hacked") == "undefined"
    assert style(browser, "h1", "color") == style(browser, "body", "color")
    assert asked == []


@pytest.mark.parametrize("is_round", [False, True])
@pytest.mark.parametrize("size", [12, 30])
def test_labels_of_a_small_tree_are_all_visible_and_do_not_overlap(look, size, is_round):
    page = look(tree_page(large_tree(size, fan=4, seen=5)))
    if is_round:
        press(page, "r")
    found = boxes(page)
    assert overlaps(found) == []
    assert is_round or len(found) == size
    assert overlaps(boxes(page, ".node rect")) == []


def test_a_thousand_artifacts_are_drawn_with_labels_that_thin_out(look):
    page = look(tree_page(large_tree(1_000)))
    assert len(texts(page, ".node")) == 1_000
    assert not one(page, "#undrawn").is_displayed()
    few = boxes(page)
    assert 20 < len(few) < 500
    assert overlaps(few) == []
    assert one(page, ".node.root text").is_displayed()
    press(page, "r")
    assert len(boxes(page)) == 1_000


def test_for_ten_thousand_artifacts_the_page_states_how_many_are_drawn(look):
    page = look(tree_page(large_tree(10_000)))
    assert len(texts(page, ".node")) == 2_000
    assert one(page, "#undrawn").text.startswith("Drawn: 2,000 of 10,000 artifacts, ")
    assert run(page, "return document.querySelectorAll('#list li').length") == 10_300
    one(page, "#search").send_keys("n9999")
    assert one(page, "#found").text == "1 found, 1 of them not drawn"


def test_a_long_chain_opens_and_its_list_stays_in_the_window(look):
    page = look(tree_page(chain(2_100)))
    assert len(texts(page, ".node")) == 2_000
    one(page, "#listed").click()
    assert run(page, "const m = document.querySelector('main'); return m.scrollWidth <= m.clientWidth")
    assert texts(page, "#list li:not(:has(li))")[-1] == "hop 2,099: → next n2099"


def test_the_same_walk_makes_the_same_page_with_the_same_positions(look):
    assert tree_page(large_tree(40)) == tree_page(large_tree(40))
    places = """return [...document.querySelectorAll(".node, path")].map(
        each => each.getAttribute("transform") ?? each.getAttribute("d"))"""
    first = run(look(tree_page(large_tree(40))), places)
    assert run(look(tree_page(large_tree(40))), places) == first


def test_screen_readers_find_the_drawing_and_the_list(look):
    page = look(tree_page(small_tree()))
    nodes = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = [each.get("role", {}).get("value") for each in nodes]
    names = [each.get("name", {}).get("value") for each in nodes]
    assert roles.count("tree") == 1
    assert roles.count("treeitem") == 4
    assert roles.count("listitem") >= 6
    assert "Alpha, root, 4 links" in names
    assert {"part-of", "has-part"} & set(names)


def test_the_page_is_readable_in_dark_mode_narrow_and_printed(look):
    page = look(tree_page(small_tree()), size=(400, 700))
    assert run(page, "return document.documentElement.scrollWidth <= innerWidth")
    light = style(page, "body", "backgroundColor")
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark})
    assert style(page, "body", "backgroundColor") != light
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    assert not one(page, "form").is_displayed()
    top, height, window = run(
        page, "const b = document.getElementById('list').getBoundingClientRect(); return [b.top, b.height, innerHeight]"
    )
    assert 0 < top < window
    assert height > 99
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_if_the_script_fails_the_list_remains(browser, look):
    page = look(tree_page(small_tree()).replace('id="walk">{', 'id="walk">!'))
    assert one(page, "#list").is_displayed()
    assert not one(page, "#drawing").is_displayed()
    assert "SyntaxError" in complaints(browser)[0]


def test_without_scripts_the_page_shows_the_list(tmp_path):
    path = tmp_path / "page.html"
    path.write_text(tree_page(small_tree()), encoding="utf-8")
    with chromium(tmp_path / "profile", javascript=False) as page:
        visit(page, path.as_uri())
        assert not one(page, "#drawing").is_displayed()
        assert not one(page, "form").is_displayed()
        assert one(page, "#list").text.splitlines() == [
            "Alpha a #x #y notes/a.md",
            "→ supports Beta b",
            "← has-part c",
            "→ related Delta d",
            "→ answers Alpha a (seen)",
            "… 7 more, left out",
            "→ refines Beta b (seen)",
        ]


def test_a_path_is_drawn_with_its_length_and_cost(look):
    edges = (Edge("b", "a", "supports"), Edge("b", "c", "cites"))
    path = LinkPath("a", "c", "both", 10, ("a", "b", "c"), edges, 3.5, 17, {"max_hops": 2}, ("max_hops",))
    page = look(path_page(path, [NodeView("c", "Gamma"), NodeView("a", "Alpha")]))
    assert page.title == "Path from Alpha to Gamma"
    assert one(page, "#facts").text == (
        "From a to c · links both ways · at most 10 hops · 2 hops, cost 3.5 · 17 artifacts reached"
    )
    assert one(page, "#left-out").text == "left out: max_hops at least 2"
    assert texts(page, ".node") == ["Alpha", "b", "Gamma"]
    assert texts(page, "#list li li li") == ["→ cites Gamma c"]
    assert sorted(texts(page, "#links text")) == ["cites", "supports"]
    assert "supported-by" in path_page(path)
    assert "supported-by" not in path_page(path, inverses=None)


def test_a_path_that_was_not_found_shows_both_ends(look):
    page = look(path_page(LinkPath("a", ("other", "z"), "out", 1, visited=1), [NodeView("a", "Alpha")]))
    assert one(page, "#facts").text.endswith("at most 1 hop · no path found · 1 artifact reached")
    assert texts(page, ".node") == ["Alpha", "other/z"]
    assert texts(page, "#links path") == []


def test_a_path_from_an_artifact_to_itself_is_that_artifact(look):
    page = look(path_page(LinkPath("a", "a", "out", None, ("a",), (), 0.0, 1)))
    assert "any number of hops · 0 hops · 1 artifact reached" in one(page, "#facts").text
    assert texts(page, ".node") == ["a"]


def test_a_walk_without_artifacts_several_roots_and_loops_open(look):
    look(tree_page(WalkTree((), "out", 3, (), (), ())))
    loop, across = Edge("a", "a", "self"), Edge(("other", "b"), "a", "cites")
    seen = [TreeLink("a", "a", 0, "self", loop), TreeLink("a", ("other", "b"), 0, "cited-by", across)]
    nodes = [NodeView("a"), NodeView(("other", "b"))]
    page = look(tree_page(WalkTree(("a", ("other", "b")), "both", 3, nodes, [loop, across], (), seen)))
    assert page.title == "Links of a, other/b"
    assert texts(page, ".node.root") == ["a", "other/b"]
    assert len(texts(page, "#links path.reference")) == 2
    press(page, "r")
    assert len(texts(page, "#links path.reference")) == 2
    point_at(page, node(page, 0))
    assert texts(page, "#card li") == ["self → a", "← cites other/b"]


class Reader(HTMLParser):
    """A parser that checks the nesting of elements and stores the text of the element `walk`."""

    VOID = frozenset({"meta", "input"})

    def __init__(self, html):
        super().__init__()
        self.open, self.data, self.deepest, self.items = [], "", 0, 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append((tag, dict(attrs).get("id")))
            self.deepest = max(self.deepest, len(self.open))
            self.items += tag == "li"

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if ("script", "walk") in self.open:
            self.data += data


@given(st.lists(st.tuples(st.integers(0, 99), st.text() | st.sampled_from(HOSTILE)), max_size=12), st.text())
def test_the_page_of_any_walk_is_well_formed_and_contains_its_json(links, title):
    ids = [f"{number}{text}" for number, (_, text) in zip(count(1), links, strict=False)]
    tree_links = [
        ((["root", *ids])[above % (n + 1)], id, text or "t", above % 2)
        for n, (id, (above, text)) in enumerate(zip(ids, links, strict=True))
    ]
    edges, steps = edges_and_steps(tree_links)
    nodes = [
        NodeView("root", title or None),
        *(NodeView(id, text or None) for id, (_, text) in zip(ids, links, strict=True)),
    ]
    tree = WalkTree(["root"], "both", 3, nodes, edges, steps)
    html = tree_page(tree)
    html.encode()
    page = Reader(html)
    assert page.open == []
    assert page.items == len(nodes) + 4  # those of the legend
    data = json.loads(page.data)
    assert data.pop("page")["steps"] == list(range(len(steps)))
    assert data == json.loads(json.dumps(tree.to_dict()))


def test_lists_are_nested_only_as_deep_as_browsers_allow():
    page = Reader(tree_page(chain(2_000)))
    assert page.items == 2_004
    assert page.deepest < 80
