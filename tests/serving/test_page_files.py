"""The files of the page: what a server sends, without a browser."""

import re
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from airw.serving import app
from airw.serving.page import page_routes

FOLDER = Path(__file__).parents[2] / "airw" / "serving" / "page"
FILES = sorted(path for path in FOLDER.iterdir() if path.suffix in (".html", ".css", ".js"))
# All ways in which a text could become an element or a script.
SINKS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|\beval\b|new Function|setHTML|DOMParser"
    r"|createContextualFragment|javascript:|\son\w+=|setAttribute\(\"(?:on|style|href|src)"
)


async def get(path, application):
    async with httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://127.0.0.1") as client:
        return await client.get(path)


@pytest.mark.parametrize("prefix", ["", "/find"])
async def test_all_files_are_served_below_any_prefix_and_need_no_token(prefix):
    served = app(["notes"])
    application = Starlette(routes=[Mount(prefix, served)]) if prefix else served
    page = await get(f"{prefix}/", application)
    linked = re.findall(r'(?:href|src)="(?!data:)([^"]+)"', page.text)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert linked
    served_names = {"index.html"}
    imported = [f"page/{name}" for path in FILES for name in re.findall(r'from "\./(.+?)"', path.read_text("utf-8"))]
    for address in {*linked, *imported}:
        answer = await get(f"{prefix}/{address}", application)
        served_names.add(address.rpartition("/")[2])
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/css" if address.endswith("css") else "text/javascript")
    assert served_names == {path.name for path in FILES}


async def test_the_policy_of_each_file_allows_its_own_server_only():
    for route in page_routes():
        answer = await get(route.path, Starlette(routes=[route]))
        rules = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
        assert rules.pop("default-src") == "'none'"
        assert {rules.pop(f"{kind}-src") for kind in ("script", "style", "connect")} == {"'self'"}
        assert rules.pop("img-src") == "'self' data:"
        assert {rules.pop(kind) for kind in ("base-uri", "form-action", "frame-ancestors")} == {"'none'"}
        assert rules == {"require-trusted-types-for": "'script'", "trusted-types": "'none'"}
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_files_name_no_other_server_and_make_no_elements_from_text(path):
    text = path.read_text("utf-8")
    addresses = [each for each in re.findall(r"\w+://[^\s\"'`]+", text) if each != "http://www.w3.org/2000/svg"]
    assert addresses == []
    assert SINKS.findall(text) == []
    assert not re.search(r"(?:href|src)=\"/|url\(|@import", text)
    assert max(map(len, text.splitlines())) <= 120
