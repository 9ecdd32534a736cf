"""The site of the documentation is complete, and requests nothing from elsewhere.

It is built once, as `make docs` builds it, and looked at in a real browser.
"""

import importlib.util
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
import yaml
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

import airw
from tests.support.browser import chromium, complaints, requests, visit
from tests.support.serving import serve

ROOT = Path(__file__).parents[2]
PACKAGES = [f"airw.{each.name}" for each in iter_modules(airw.__path__) if each.ispkg and each.name[0] != "_"]
PACKAGES = [name for name in PACKAGES if name not in {"airw.cli", "airw.integrations"}]
PACKAGES += ["airw.integrations.langchain", "airw.integrations.llama_index"]
CONFIG = ROOT / "mkdocs.yml"
# What a browser loads by itself; a link is another matter.
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "video": "src"}


def pages_of(entries) -> list[str]:
    """Return the files that a part of the navigation lists."""
    if isinstance(entries, str):
        return [entries]
    values = entries.values() if isinstance(entries, dict) else entries
    return [page for value in values for page in pages_of(value)]


def test_the_navigation_lists_each_page_once():
    pages = pages_of(yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["nav"])
    beside_the_code = {"index.md", "contributing.md", "changelog.md", "reference/index.md"}
    assert sorted(set(pages) - beside_the_code) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))
    assert len(pages) == len(set(pages))


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The folder of the built site."""
    for module in ("mkdocs", "mkdocstrings"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed: make docs installs it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Assets(HTMLParser):
    """The addresses that a page loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if LOADED.get(tag) == name and value]


@pytest.mark.slow
def test_no_page_and_no_style_names_an_asset_from_elsewhere(site):
    pages = [path for path in site.rglob("*.html") if path.is_file()]  # a page about page.html is in a folder
    assets = {asset for page in pages for asset in Assets(page.read_text(encoding="utf-8")).found}
    for style in site.rglob("*.css"):
        assets |= set(re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')\s]+)", style.read_text(encoding="utf-8")))
    assert len(pages) > 60
    assert len(assets) > 20
    assert [asset for asset in assets if re.match(r"(?!data:)([a-z]+:|//)", asset)] == []


@pytest.mark.slow
def test_the_reference_has_each_public_name(site):
    anchors = set()
    for page in (site / "reference").rglob("*.html"):
        anchors |= set(re.findall(r'id="(airw\.[\w.]+)"', page.read_text(encoding="utf-8")))
    assert {f"airw.{name}" for name in airw.__all__} <= anchors
    places = set()
    for package in map(import_module, PACKAGES):
        places |= {f"{package.__name__}.{name}" for name in package.__all__ if name not in airw.__all__}
    assert len(places) > 300
    assert places - anchors == set()


@pytest.mark.slow
@pytest.mark.parametrize("page", ["airw.integrations.langchain", "airw.integrations.llama_index"])
def test_the_reference_has_the_parameters_of_a_function_made_of_another(site, page):
    shown = (site / "reference" / page / "index.html").read_text(encoding="utf-8")
    assert "Seconds for one walk" in shown


@pytest.mark.slow
@pytest.mark.asyncio_only
def test_a_browser_reads_and_searches_the_site_and_asks_nobody_else(site, tmp_path):
    application = Starlette(routes=[Mount("/", StaticFiles(directory=site, html=True))])
    with serve(application) as server, chromium(tmp_path) as browser:
        for page in ("", "tutorial/", "graphs/", "reference/verbs/", "files/examples/agent_loop.py/"):
            visit(browser, f"{server.url}/{page}")
            assert browser.find_element(By.TAG_NAME, "h1").text
        box = browser.find_element(By.CSS_SELECTOR, "input[name=query]")
        browser.execute_script("arguments[0].focus()", box)
        box.send_keys("frontier")
        found = ".md-search-result__item"
        WebDriverWait(browser, 30).until(lambda _: browser.find_elements(By.CSS_SELECTOR, found))
        assert complaints(browser) == []
        asked = requests(browser)
    assert any(address.endswith("search_index.json") for address in asked)
    assert [address for address in asked if not address.startswith((server.url, "data:", "blob:"))] == []
