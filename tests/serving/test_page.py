"""The page of a server in a real browser.

The server is real, too, and the store takes its time.
"""

import json
import math
from contextlib import contextmanager
from dataclasses import replace
from threading import Event
from urllib.parse import urlencode, urlsplit

import anyio
import httpx
import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait
from starlette.applications import Starlette
from starlette.routing import Mount

from airw.errors import StoreError
from airw.protocols import Edges, Rank
from airw.serving import ServingLimits, Token, app
from airw.testing import ScriptedStore
from tests.support.browser import chromium, complaints, requests, visit
from tests.support.served_corpora import make_corpus
from tests.support.serving import serve
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.slow

SECRET = "a-token-of-the-tests"
HOSTILE = [
    "<img src=x onerror=hacked=1>",
    "</script><script>hacked=1</script>",
    "\"'><b onmouseover=hacked=1>",
    "javascript:hacked=1",
    "\u2028\u2029\u202egnp.exe\u2066\ndata: hacked",
    "x" * 3_000,
]
# Notes the moment of the first hit, and whether the walk still ran then.
WATCH = """
window.firstHit = null;
new MutationObserver(() => {
  const list = document.getElementById("hits");
  if (!firstHit && list?.children.length) window.firstHit = document.body.className;
}).observe(document, { childList: true, subtree: true });
"""
# The least contrast of any text on the page, as the guidelines for accessible content define it.
CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const parse = color => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
  return [...canvas.getImageData(0, 0, 1, 1).data]; };
const light = ([r, g, b]) => [r, g, b].map(each => each / 255)
  .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
  .reduce((sum, each, place) => sum + each * [0.2126, 0.7152, 0.0722][place], 0);
const behind = element => { for (let each = element; each; each = each.parentElement) {
  const color = parse(getComputedStyle(each).backgroundColor); if (color[3] === 255) return color; }
  return parse("white"); };
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const isText = [...element.childNodes].some(each => each.nodeType === 3 && each.textContent.trim());
  if (!(isText || element.matches("input")) || !element.checkVisibility() || element.closest("svg, .unseen, noscript"))
    continue;
  const [one, other] = [parse(getComputedStyle(element).color), behind(element)].map(light).sort((a, b) => b - a);
  found.push([(one + 0.05) / (other + 0.05), element.outerHTML.slice(0, 100)]);
}
return [found.length, ...found.sort((a, b) => a[0] - b[0])[0]];
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("browser") / "profile") as running:
        running.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        yield running


@pytest.fixture(autouse=True)
def _fresh(browser):
    """Begin each test without a page, and with the settings of a new window."""
    browser.get("about:blank")
    for command in ("Emulation.clearDeviceMetricsOverride", "Emulation.setEmulatedMedia"):
        browser.execute_cdp_cmd(command, {})
    requests(browser)
    complaints(browser)
    yield
    # The browser itself reports each answer that is an error; anything else is a mistake of the page.
    assert [each for each in complaints(browser) if "Failed to load resource" not in each] == []


def make_titled(texts, links, *, titles=None, **options):
    """Return a corpus in memory of artifacts with titles."""
    titles = {id: f"Title of {id}" for id in texts} | (titles or {})
    return make_corpus(texts, links, titles=titles, **options)


def make_notes(size=30, **options):
    """Return a corpus of artifacts, each with a link to the next.

    They contain more or fewer words of a query.
    """
    texts = {f"n{number}": f"artifact {number} about keys " + "keys " * (number % 7) for number in range(size)}
    links = {f"n{number}": {"next": [f"n{number + 1}"]} for number in range(size - 1)}
    return make_titled(texts, links, **options)


@contextmanager
def page_of(browser, *corpora, prefix="", wrap=lambda application: application, **options):
    """Serve corpora, and open their page."""
    application = wrap(app(list(corpora), **options))
    if prefix:
        application = Starlette(routes=[Mount(prefix, application)])
    with serve(application) as server:
        address = f"{server.url}{prefix}/"
        visit(browser, address)
        yield address
        browser.get("about:blank")  # so that nothing is left to end when the server stops


def link_to(address, query="keys", corpora=("notes",), **fields):
    settings = {"policy": "path-coverage", "node_budget": 20, "timeout": 30, **fields}
    return f"{address}#{urlencode([('query', query), *(('corpus', each) for each in corpora), *settings.items()])}"


def follow(browser, link):
    """Open a link as in a new tab, and wait until its walk has ended."""
    start(browser, link)
    await_end(browser)


def start(browser, link):
    browser.get("about:blank")
    visit(browser, link)


def await_that(browser, script, *args):
    WebDriverWait(browser, PATIENCE, poll_frequency=0.01).until(lambda _: browser.execute_script(script, *args))


def await_end(browser):
    await_that(browser, "return /^(Ended|Stopped|Failed|No walk)/.test(document.getElementById('status').textContent)")
    await_that(browser, "return !document.body.classList.contains('walking')")


def text_of(browser, selector):
    return browser.execute_script("return document.querySelector(arguments[0]).textContent", selector)


def texts(browser, selector):
    script = "return [...document.querySelectorAll(arguments[0])].map(each => each.textContent.toWellFormed())"
    return browser.execute_script(script, selector)


def press(browser, *keys):
    """Press keys where the focus is."""
    browser.switch_to.active_element.send_keys(*keys)


def titles(browser):
    return texts(browser, "#hits .title")


def test_the_first_hit_is_visible_before_the_walk_ends(browser):
    corpus = make_notes(seconds=0.02)
    with page_of(browser, corpus) as address:
        follow(browser, link_to(address, policy="beam"))
        assert browser.execute_script("return firstHit") == "walking"
        assert len(titles(browser)) > 10
        assert text_of(browser, "#hits .passage").startswith("artifact")
        assert text_of(browser, "#hits .facts").startswith("notes · document")
        assert float(text_of(browser, "#hits .score")) > 0


def test_paths_lead_from_a_root_and_the_drawing_has_each_artifact(browser):
    with page_of(browser, make_notes(6)) as address:
        follow(browser, link_to(address, policy="link-walk", params='{"roots": ["n0"]}', max_depth=4))
        assert titles(browser) == [f"Title of n{number}" for number in range(5)]
        assert texts(browser, "#hits .path")[-1] == " \u203a next \u203a ".join(titles(browser))
        assert len(texts(browser, "#nodes .hit")) == 5
        assert texts(browser, "#nodes .seen") == [] or text_of(browser, "#caption").startswith("5 artifacts")


def test_operators_in_the_query_choose_where_the_walk_starts(browser):
    corpus = make_titled(
        {"a": "the connection pool", "b": "a pool, and a connection", "c": "the connection pool of redis"}, {}
    )
    with page_of(browser, corpus) as address:
        follow(browser, link_to(address, query='"connection pool" -redis'))
        assert titles(browser) == ["Title of a"]


def test_stop_ends_the_calls_of_the_store(browser):
    corpus = make_notes(seconds={Edges: [0, 0, math.inf]})  # it hangs after three hits
    slow_link = {"policy": "link-walk", "params": '{"roots": ["n0"]}', "max_depth": 25, "node_budget": 30}
    with page_of(browser, corpus) as address:
        start(browser, link_to(address, **slow_link))
        await_that(browser, "return document.querySelectorAll('#hits > li').length === 3")
        browser.find_element(By.ID, "stop").click()
        await_end(browser)
        listed = titles(browser)
        wait_until(lambda: 'airw_walks_total{stop="disconnected"} 1' in httpx.get(f"{address}metrics").text)
        assert (corpus.store.running, corpus.store.calls[Edges]) == (0, 3)
        assert len(listed) == 3
        assert titles(browser) == listed
        assert text_of(browser, "#status").startswith("Stopped after")
        assert browser.switch_to.active_element.get_attribute("id") == "query"


def test_scripts_in_documents_stay_text(browser):
    ids = [f"a{number}" for number in range(len(HOSTILE))]
    links = {one: {text[:20]: [other]} for one, other, text in zip(ids, ids[1:], HOSTILE, strict=False)}
    shown = [text.split("\u2028")[0] or text for text in HOSTILE]
    corpus = make_titled(dict(zip(ids, HOSTILE, strict=True)), links, titles=dict(zip(ids, HOSTILE, strict=True)))
    with page_of(browser, corpus) as address:
        before = browser.execute_script("return document.scripts.length")
        follow(browser, link_to(address, HOSTILE[0], policy="link-walk", params='{"roots": ["a0"]}', max_depth=9))
        assert len(titles(browser)) == len(HOSTILE)
        assert titles(browser)[:4] == shown[:4]
        assert "\\u202egnp.exe\\u2066" in titles(browser)[4]
        assert browser.execute_script("return [typeof hacked, document.scripts.length]") == ["undefined", before]
        assert texts(browser, "#hits :is(img, script, b, a, iframe), #picture :is(image, script, a, b)") == []
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_an_error_of_the_server_is_shown_as_text(browser):
    with page_of(browser, make_notes(6)) as address:
        follow(browser, link_to(address, policy="beam", params='{"width": "<b>wide</b>"}'))
        problem = browser.find_element(By.ID, "problem")
        assert problem.get_attribute("role") == "alert"
        assert "width" in problem.text
        assert texts(browser, "#problem *") == []
        assert text_of(browser, "#status") == "No walk."


def test_a_failure_in_the_midst_of_a_walk_keeps_the_hits(browser):
    corpus = make_notes()
    failing = ScriptedStore(corpus.store, failures={Edges: [None, None, None, OSError("the disk is gone")]})
    slow_link = {"policy": "link-walk", "params": '{"roots": ["n0"]}', "max_depth": 25}
    with page_of(browser, replace(corpus, store=failing)) as address:
        follow(browser, link_to(address, **slow_link))
        assert len(titles(browser)) >= 2
        assert browser.find_element(By.ID, "problem").text.startswith("The walk failed: ")
        assert text_of(browser, "#status").startswith("Failed after ")


def test_a_link_gives_the_same_list_and_no_query_in_an_address(browser):
    query = "keys of the unmistakable query"
    with page_of(browser, make_notes(), make_notes(8, name="others")) as address:
        query_box = browser.find_element(By.ID, "query")
        await_that(browser, "return document.querySelectorAll('[name=corpus]').length === 2")
        query_box.send_keys(query)
        browser.find_element(By.CSS_SELECTOR, "[value=others]").click()
        Select(browser.find_element(By.ID, "policy")).select_by_visible_text("beam")
        browser.find_element(By.ID, "params").send_keys('{"width": 3}')
        budget = browser.find_element(By.ID, "node_budget")
        budget.clear()
        budget.send_keys("7", Keys.ENTER)
        await_end(browser)
        link, listed, scores = browser.current_url, titles(browser), texts(browser, "#hits .score")
        follow(browser, link)
        assert (titles(browser), texts(browser, "#hits .score")) == (listed, scores)
        assert len(listed) == 7
        assert browser.find_element(By.ID, "params").get_attribute("value") == '{"width": 3}'
        addresses = requests(browser)
        assert f"{address}traverse" in addresses
        assert all(each.startswith(address) or each == "about:blank" for each in addresses if "data:," not in each)
        assert not any("unmistakable" in each for each in addresses)


def test_a_link_to_an_unknown_corpus_starts_nothing(browser):
    with page_of(browser, make_notes(6)) as address:
        start(browser, link_to(address, corpora=["notes", "<i>gone</i>"]))
        await_that(browser, "return !document.getElementById('problem').hidden")
        assert "<i>gone</i>" in browser.find_element(By.ID, "problem").text
        assert f"{address}traverse" not in requests(browser)


def test_everything_can_be_done_with_the_keyboard(browser):
    with page_of(browser, make_notes()):
        await_that(browser, "return document.querySelectorAll('[name=corpus]').length === 1")
        browser.execute_script("document.activeElement.blur()")
        browser.find_element(By.TAG_NAME, "body").send_keys("/")
        assert browser.switch_to.active_element.get_attribute("id") == "query"
        press(browser, "keys", Keys.ENTER)
        await_end(browser)
        order = []
        for _ in range(10):
            press(browser, Keys.TAB)
            active = browser.switch_to.active_element
            order.append(active.get_attribute("id") or active.get_attribute("name") or active.get_attribute("class"))
            assert browser.execute_script("return getComputedStyle(arguments[0]).outlineStyle", active) != "none"
        assert order == [
            *("start", "corpus", "policy", "node_budget", "max_depth", "timeout", "params", "copy"),
            *("title", "title"),
        ]
        press(browser, Keys.ENTER)
        assert browser.switch_to.active_element.get_attribute("aria-expanded") == "true"
        assert texts(browser, "#nodes .on, #links .on")  # the focus emphasizes the hit in the drawing


def test_each_control_has_a_name_and_news_are_polite(browser):
    with page_of(browser, make_notes()) as address:
        browser.execute_script("""
            window.spoken = [];
            new MutationObserver(() => spoken.push(document.getElementById("spoken").textContent))
              .observe(document.getElementById("spoken"), { childList: true });
        """)
        browser.find_element(By.ID, "query").send_keys("keys", Keys.ENTER)
        await_end(browser)
        controls = browser.find_elements(By.CSS_SELECTOR, "input, select, button, [role], section, ol")
        shown = [each for each in controls if each.is_displayed()]
        assert all(each.accessible_name for each in shown if each.tag_name not in ("ol", "p")), address
        assert browser.find_element(By.ID, "spoken").get_attribute("role") == "status"
        said = browser.execute_script("return spoken")
        assert said[0].startswith("Walking")
        assert said[-1].startswith("Ended")
        assert len(said) <= 5


def go_on(browser):
    """Press *Go on*, and wait until the walk has ended again."""
    browser.find_element(By.ID, "further").click()
    await_end(browser)


def count_of(browser, kind):
    return browser.execute_script("return document.querySelectorAll(arguments[0]).length", f"#nodes circle.{kind}")


@pytest.mark.parametrize(
    ("limit", "before", "after", "counts"),
    [("node_budget", 4, "8", (4, 8)), ("max_depth", 2, "3", (3, 4))],
)
def test_a_walk_that_ended_at_a_limit_goes_on_in_the_same_drawing(browser, limit, before, after, counts):
    policy = {"policy": "link-walk", "params": json.dumps({"roots": ["n0"], "max_depth": None})}
    corpus = make_notes()
    with page_of(browser, corpus) as address:
        follow(browser, link_to(address, **policy, **{limit: before}))
        browser.execute_script("window.first = document.querySelector('#hits > li')")
        assert (len(titles(browser)), count_of(browser, "hit")) == (counts[0], counts[0])
        calls = corpus.store.calls.total()
        go_on(browser)
        further = corpus.store.calls.total() - calls
        assert (len(titles(browser)), count_of(browser, "hit")) == (counts[1], counts[1])
        assert browser.execute_script("return first.isConnected")
        assert browser.find_element(By.ID, limit).get_attribute("value") == after
        in_parts = titles(browser)
        follow(browser, link_to(address, **policy, **{limit: after}))
        assert titles(browser) == in_parts
        assert further < corpus.store.calls.total() - calls - further  # a new walk asks for what the page has
        assert [path for path in (urlsplit(each).path for each in requests(browser)) if "traverse" in path] == [
            "/traverse",
            "/traverse/continue",
            "/traverse",
        ]


def test_a_walk_that_the_server_no_longer_holds_is_walked_again(browser):
    policy = {"policy": "link-walk", "params": json.dumps({"roots": ["n0"], "max_depth": None})}
    with page_of(browser, make_notes(), limits=ServingLimits(max_hold=0.1)) as address:
        follow(browser, link_to(address, **policy, node_budget=2))
        wait_until(lambda: "airw_walks_held 0" in httpx.get(f"{address}metrics").text)
        go_on(browser)
        assert not browser.find_element(By.ID, "problem").is_displayed()
        assert (len(titles(browser)), count_of(browser, "hit")) == (4, 4)


def test_a_walk_that_ended_by_itself_has_no_button_to_go_on(browser):
    with page_of(browser, make_notes(size=3)) as address:
        follow(browser, link_to(address, node_budget=50))
        assert not browser.find_element(By.ID, "further").is_displayed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colours_follow_the_system_and_are_easy_to_read(browser, scheme):
    with page_of(browser, make_notes()) as address:
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        follow(browser, link_to(address, policy="beam"))
        browser.execute_script("document.getElementById('problem').hidden = false; "
                               "document.getElementById('problem').textContent = 'a problem'")  # fmt: skip
        await_that(browser, "return document.getAnimations().length === 0")  # the hits have appeared
        elements, least, where = browser.execute_script(CONTRAST)
        assert elements > 50
        assert least >= 4.5, where
        [paper] = browser.execute_script("return [getComputedStyle(document.body).backgroundColor]")
        assert paper == {"light": "rgb(251, 251, 250)", "dark": "rgb(20, 23, 28)"}[scheme]


def test_a_narrow_window_needs_no_sideways_scrolling(browser):
    size = {"width": 360, "height": 780, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    long_id = "a/" + "very-long-name-" * 20
    texts_by_id = {long_id: "keys " * 99 + "k" * 900, "b": "keys"}
    corpus = make_titled(texts_by_id, {"b": {"t" * 90: [long_id]}}, titles={"b": ""})
    with page_of(browser, corpus) as address:
        widths = "return [document.documentElement.scrollWidth, innerWidth]"
        assert browser.execute_script(widths) == [360, 360]
        follow(browser, link_to(address, "keys " * 40))
        assert browser.execute_script(widths) == [360, 360]
        assert len(titles(browser)) == 2
        browser.find_element(By.CSS_SELECTOR, "#hits .title").click()
        assert browser.execute_script(widths) == [360, 360]
        outside = """return [...document.querySelectorAll("header *, #hits *, p")]
            .filter(each => each.checkVisibility() && !each.closest(".unseen, #ticks"))
            .filter(each => each.getBoundingClientRect().right > 360).map(each => each.outerHTML.slice(0, 80))"""
        assert browser.execute_script(outside) == []


def test_the_final_ranking_replaces_the_order_of_arrival(browser):
    is_read = Event()

    def wrap(application):
        async def hold_summary(scope, receive, send):
            async def send_later(message):
                if b"event: summary" in message.get("body", b""):
                    await anyio.to_thread.run_sync(is_read.wait)
                await send(message)

            await application(scope, receive, send_later)

        return hold_summary

    with page_of(browser, make_notes(seconds=0.05), wrap=wrap) as address:
        start(browser, link_to(address, policy="personalized-page-rank"))
        await_that(browser, "return document.querySelectorAll('#hits > li').length >= 5")
        arrived = titles(browser)[:5]
        is_read.set()
        await_end(browser)
        assert sorted(titles(browser)[:5]) == sorted(arrived)
        assert titles(browser)[:5] != arrived
        assert texts(browser, "#hits .rank") == [str(place) for place in range(1, len(titles(browser)) + 1)]


@pytest.mark.parametrize("place", [0, 9, 29])
def test_a_new_order_keeps_the_focus_and_its_place_on_the_screen(browser, place):
    with page_of(browser, make_notes()) as address:
        follow(browser, link_to(address, policy="link-walk", params='{"roots": ["n0"]}', max_depth=30, node_budget=30))
        listed = titles(browser)
        assert len(listed) == 30
        browser.execute_async_script("""
            const done = arguments[1], button = document.querySelectorAll("#hits .title")[arguments[0]];
            button.scrollIntoView({ block: "center" });
            button.focus({ preventScroll: true });
            Object.assign(window, { lost: 0, tops: [], watched: button, from: scrollY });
            button.addEventListener("blur", () => { lost += 1; });
            requestAnimationFrame(function note() {
              tops.push(button.getBoundingClientRect().top);
              requestAnimationFrame(note);
            });
            const { hits } = await import("./page/page.js");
            const order = [...Array(30).keys()].reverse().filter(each => each !== 3);
            setTimeout(() => { hits.rank(order.map(hit => ({ hit, score: hit / 30 }))); setTimeout(done, 600); }, 100);
        """, place)  # fmt: skip
        kept, lost, moved, low = browser.execute_script("""
            return [document.activeElement === watched, lost, Math.max(...tops) - Math.min(...tops),
              scrollY + innerHeight >= document.documentElement.scrollHeight - 1 || scrollY === 0];
        """)
        assert (kept, lost) == (True, 0)
        assert moved < 2 or (low and place != 9)  # at the ends of the page nothing can scroll further
        assert titles(browser) == [*(each for each in reversed(listed) if each != "Title of n3"), "Title of n3"]
        assert texts(browser, "#hits .rank") == [*map(str, range(1, 30)), "\u2013"]
        assert texts(browser, "#hits .score")[0] == "0.967"


def test_a_hit_that_the_ranking_replaces_shows_what_the_ranking_has(browser):
    """The walk's policy may have found a better passage; the focus stays where it is."""
    with page_of(browser, make_notes(4)) as address:
        follow(browser, link_to(address, policy="link-walk", params='{"roots": ["n0"]}', max_depth=3))
        kept = browser.execute_async_script("""
            const { hits } = await import("./page/page.js"), button = document.querySelectorAll("#hits .title")[1];
            button.focus();
            const replaced = { artifact_id: "n1", source: "notes", surface_kind: "chunk", score: 0.5,
              text: "a better passage <b>", metadata: { title: "Another title", path: "b.md" } };
            hits.rank([0, 1, 2, 3].map(hit => ({ hit, score: 0.5, ...(hit === 1 ? { replaced } : {}) })));
            arguments[0](document.activeElement === button);
        """)
        assert kept is True
        assert titles(browser) == ["Title of n0", "Another title", "Title of n2", "Title of n3"]
        assert texts(browser, "#hits .passage")[1] == "a better passage <b>"
        assert texts(browser, "#hits .facts")[1] == "notes \u00b7 chunk \u00b7 b.md"


def test_nothing_moves_for_people_who_want_less_motion(browser):
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    )
    with page_of(browser, make_notes(seconds=0.02)) as address:
        start(browser, link_to(address, policy="beam"))
        await_that(browser, "return document.querySelectorAll('#hits > li').length >= 3")
        assert browser.execute_script("return document.getAnimations().length") == 0
        await_end(browser)
        moving = browser.execute_async_script("""
            const { hits } = await import("./page/page.js");
            hits.rank([...Array(hits.size).keys()].reverse().map(hit => ({ hit, score: 0 })));
            arguments[0](document.getAnimations().length);
        """)
        assert moving == 0


def test_a_token_is_asked_for_kept_in_the_tab_and_sent_as_a_header(browser):
    with page_of(browser, make_notes(6), tokens=[Token(value=SECRET)]) as address:
        await_that(browser, "return document.activeElement.id === 'token'")
        press(browser, "a-wrong-token-of-tests", Keys.ENTER)
        await_that(browser, "return document.getElementById('problem').textContent.includes('does not accept')")
        press(browser, SECRET, Keys.ENTER)
        await_that(browser, "return document.querySelectorAll('[name=corpus]').length === 1")
        assert not browser.find_element(By.ID, "token-form").is_displayed()
        browser.find_element(By.ID, "query").send_keys("keys", Keys.ENTER)
        await_end(browser)
        assert len(titles(browser)) == 6
        assert not any(SECRET in each for each in [browser.current_url, *requests(browser)])
        assert browser.execute_script("return [document.cookie, localStorage.length]") == ["", 0]
        browser.refresh()
        await_that(browser, "return document.querySelectorAll('#hits > li').length === 6")
        browser.find_element(By.ID, "forget").click()
        await_that(browser, "return document.activeElement?.id === 'token'")
        assert browser.execute_script("return sessionStorage.length") == 0
        assert titles(browser) == []
        assert browser.current_url.startswith(address)


def test_a_page_below_a_prefix_works(browser):
    with page_of(browser, make_notes(6), prefix="/find") as address:
        follow(browser, link_to(address))
        assert len(titles(browser)) == 6
        assert all(each.startswith(address) for each in requests(browser) if each.startswith("http"))


def test_a_walk_that_breaks_off_goes_on_where_it_was(browser):
    attempts = []

    def wrap(application):
        async def breaking(scope, receive, send):
            if scope["type"] != "http" or not scope["path"].endswith("/traverse"):
                await application(scope, receive, send)
                return
            attempts.append(dict(scope["headers"]).get(b"last-event-id", b""))
            sent = 0

            async def send_some(message):
                nonlocal sent
                sent += message.get("body", b"").count(b"event: hit")
                if len(attempts) == 1 and sent > 4:
                    raise ConnectionError
                await send(message)

            await application(scope, receive, send_some)

        return breaking

    with page_of(browser, make_notes(seconds=0.02), wrap=wrap) as address:
        link = link_to(address, policy="link-walk", params='{"roots": ["n0"]}', max_depth=12)
        follow(browser, link)
        broken = titles(browser)
        assert len(attempts) == 2
        assert attempts[0] == b""
        assert int(attempts[1]) > 0
        follow(browser, link)
        assert len(attempts) == 3
        assert titles(browser) == broken == [f"Title of n{number}" for number in range(13)]


def test_a_walk_goes_on_after_a_server_restarts(browser):
    """A server that stops says so in an event that has no id."""
    attempts = []

    def wrap(application):
        async def stopping(scope, receive, send):
            is_walk = scope["type"] == "http" and scope["path"].endswith("/traverse")
            attempts.extend(["walk"] * is_walk)
            is_first, sent = is_walk and len(attempts) == 1, 0

            async def send_some(message):
                nonlocal sent
                if is_first and sent > 2:
                    body = b'event: error\ndata: {"detail": "the server is going to stop; ask again"}\n\n'
                    await send({"type": "http.response.body", "body": body, "more_body": False})
                    raise OSError
                sent += message.get("body", b"").count(b"event: hit")
                await send(message)

            await application(scope, receive, send_some)

        return stopping

    with page_of(browser, make_notes(seconds=0.02), wrap=wrap) as address:
        follow(browser, link_to(address, policy="link-walk", params='{"roots": ["n0"]}', max_depth=5))
        assert len(attempts) == 2
        assert titles(browser) == [f"Title of n{number}" for number in range(6)]
        assert not browser.find_element(By.ID, "problem").is_displayed()


def test_a_server_that_falls_silent_is_reported_and_the_walk_can_be_run_again(browser):
    attempts = []

    def wrap(application):
        async def silent(scope, receive, send):
            is_walk = scope["type"] == "http" and scope["path"].endswith("/traverse")
            attempts.extend(["walk"] * is_walk)
            is_first, sent = is_walk and len(attempts) == 1, 0

            async def send_some(message):
                nonlocal sent
                sent += message.get("body", b"").count(b"event: hit")
                if is_first and sent > 2:  # from now on not even a heartbeat
                    await anyio.sleep_forever()
                await send(message)

            await application(scope, receive, send_some)

        return silent

    with page_of(browser, make_notes(seconds=0.02), wrap=wrap, limits=ServingLimits(heartbeat=1.0)) as address:
        start(browser, link_to(address, policy="link-walk", params='{"roots": ["n0"]}', max_depth=5))
        await_end(browser)
        assert "the connection was lost: nothing came for" in browser.find_element(By.ID, "problem").text
        assert 0 < len(titles(browser)) < 6
        assert len(attempts) == 1  # a server that is silent is not asked again by itself
        browser.find_element(By.ID, "again").click()
        await_that(browser, "return document.querySelectorAll('#hits > li').length === 6")
        await_end(browser)
        assert not browser.find_element(By.ID, "again").is_displayed()
        assert not browser.find_element(By.ID, "problem").is_displayed()


def test_heartbeats_keep_a_walk_that_takes_its_time(browser):
    with page_of(browser, make_notes(1, seconds=4.0), limits=ServingLimits(heartbeat=1.0)) as address:
        start(browser, link_to(address, policy="link-walk", params='{"roots": ["n0"]}', max_depth=0))
        await_end(browser)
        assert text_of(browser, "#status").startswith("Ended")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_events_are_read_in_pieces_of_any_size(browser, end):
    """A piece may end within a character, a line break or an event. The last event is cut off."""
    lines = [": \n", "id: 1", "event: hit", 'data: {"text": "schlo\u00df \U0001f511"}', "", ":", "event: other", ""]
    lines += ["data: 0", "", "id: 2", "event:summary", 'data: {"a":', "data:1}", "", "id: 3", "data: {}"]
    with page_of(browser, make_notes(3)):
        read = browser.execute_async_script("""
            const [text, done] = arguments, bytes = new TextEncoder().encode(text), found = new Set();
            const { readEvents } = await import("./page/stream.js");
            for (let size = 1; size <= bytes.length; size++) {
              const body = new ReadableStream({ start(control) {
                for (let at = 0; at < bytes.length; at += size) control.enqueue(bytes.slice(at, at + size));
                control.close();
              } });
              const events = [];
              for await (const event of readEvents(body, { wait: promise => promise })) events.push(event);
              found.add(JSON.stringify(events));
            }
            done([...found]);
        """, end.join(lines))  # fmt: skip
    [events] = read
    assert json.loads(events) == [
        {"id": "1", "name": "hit", "data": {"text": "schlo\u00df \U0001f511"}},
        {"id": "1", "name": "message", "data": 0},
        {"id": "2", "name": "summary", "data": {"a": 1}},
    ]


def test_a_server_that_is_gone_is_reported(browser):
    with page_of(browser, make_notes(6)) as address:
        await_that(browser, "return document.querySelectorAll('[name=corpus]').length === 1")
        browser.execute_cdp_cmd(
            "Network.emulateNetworkConditions",
            {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1},
        )
        try:
            browser.find_element(By.ID, "query").send_keys("keys", Keys.ENTER)
            await_end(browser)
            assert "the connection broke" in browser.find_element(By.ID, "problem").text
        finally:
            browser.execute_cdp_cmd(
                "Network.emulateNetworkConditions",
                {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1},
            )
        follow(browser, link_to(address))
        assert len(titles(browser)) == 6


def test_large_walks_are_listed_and_drawn_within_bounds(browser):
    ids = [f"a{number}" for number in range(900)]
    corpus = make_titled({"hub": "keys", **dict.fromkeys(ids, "keys and doors")}, {"hub": {"part": ids}})
    with page_of(browser, corpus) as address:
        link = {"policy": "link-walk", "params": '{"roots": ["hub"]}', "node_budget": 700}
        follow(browser, link_to(address, **link))
        assert len(titles(browser)) == 200
        assert text_of(browser, "#unlisted") == "And 500 more hits, not listed here."
        drawn = len(texts(browser, "#nodes circle"))
        assert 250 <= drawn <= 301
        assert "of 700 artifacts" in text_of(browser, "#caption")


def test_a_burst_of_hits_leaves_frames_between(browser):
    """A page that receives a thousand hits at once goes on painting, and answers its reader."""
    ids = [f"a{number}" for number in range(1_000)]
    corpus = make_titled({"hub": "keys", **dict.fromkeys(ids, "keys and doors " * 50)}, {"hub": {"part": ids}})
    with page_of(browser, corpus) as address:
        await_that(browser, "return document.querySelectorAll('[name=corpus]').length === 1")
        browser.execute_async_script("""
            const { hits } = await import("./page/page.js"), done = arguments[0];
            window.sizes = new Set();
            requestAnimationFrame(function note() {
              sizes.add(hits.size);
              requestAnimationFrame(note);
            });
            done();
        """)
        link = {"policy": "link-walk", "params": '{"roots": ["hub"]}', "node_budget": 1_001}
        browser.execute_script("location.href = arguments[0]", link_to(address, **link))
        await_end(browser)
        between = browser.execute_script("return [...sizes].filter(size => 1 < size && size < 1001).length")
        assert between >= 5


def test_several_corpora_are_walked_as_one_graph(browser):
    notes = make_titled({"n": "keys"}, {"n": {"cites": [["books", "b"]]}}, titles={"n": "A note"})
    books = make_titled({"b": "doors"}, {}, name="books", titles={"b": "A book"})
    with page_of(browser, notes, books) as address:
        link = {"policy": "link-walk", "params": '{"roots": [["notes", "n"]]}'}
        follow(browser, link_to(address, corpora=["notes", "books"], **link))
        assert titles(browser) == ["A note", "A book"]
        assert [each.split(" ")[0] for each in texts(browser, "#hits .facts")] == ["notes", "books"]
        assert texts(browser, "#hits .path") == ["A note \u203a cites \u203a A book"]
        assert len(texts(browser, "#nodes .hit")) == 2


def test_a_corpus_that_fails_is_named_and_the_others_go_on(browser):
    notes, books = make_notes(4), make_notes(5, name="books")
    failing = ScriptedStore(books.store, failures={Rank: StoreError("the disk is gone")})
    with page_of(browser, notes, replace(books, store=failing)) as address:
        follow(browser, link_to(address, corpora=["notes", "books"], policy="eager"))
        assert {each.split(" ")[0] for each in texts(browser, "#hits .facts")} == {"notes"}
        assert browser.find_element(By.ID, "problem").text.startswith("Without an answer: books.")


def test_back_returns_to_the_walk_before(browser):
    with page_of(browser, make_notes()) as address:
        follow(browser, link_to(address, node_budget=3))
        before = titles(browser)
        budget = browser.find_element(By.ID, "node_budget")
        budget.clear()
        budget.send_keys("9", Keys.ENTER)
        await_that(browser, "return document.querySelectorAll('#hits > li').length === 9")
        browser.back()
        await_that(browser, "return document.querySelectorAll('#hits > li').length === 3")
        await_end(browser)
        assert titles(browser) == before
