"""`airw.serving.app` inside other applications, and without its extra."""

import re
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from airw import build, from_mapping
from airw.errors import ArgumentError
from airw.protocols import Counts, ask
from airw.serving import Token, app
from tests.support.served import client, notes


def starlette_with(api, lifespan=None):
    return Starlette(routes=[Mount("/kb", api)], lifespan=lifespan)


def fastapi_with(api, lifespan=None):
    site = FastAPI(lifespan=lifespan)
    site.mount("/kb", api)
    return site


def is_open_here(file):
    links = (link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink())
    return file.resolve() in links


@pytest.mark.parametrize("site_with", [starlette_with, fastapi_with])
async def test_an_application_serves_below_a_path_of_another(site_with):
    async with notes() as corpus, client(site_with(app([corpus]))) as asking:
        found = await asking.post("/kb/search", json={"corpus": "notes", "query": "keys"})
        assert (found.status_code, found.json()["hits"][0]["source"]) == (200, "notes")
        absent = await asking.get("/kb/nothing")
        assert (absent.status_code, absent.headers["content-type"]) == (404, "application/problem+json")
        wrong = await asking.patch("/kb/artifact")
        assert (wrong.status_code, set(wrong.headers["allow"].split(", "))) == (405, {"GET", "HEAD", "PUT", "DELETE"})
        assert (await asking.get("/kb/corpora/")).status_code == 404  # no redirect


@pytest.mark.asyncio_only
@pytest.mark.parametrize("site_with", [starlette_with, fastapi_with])
async def test_the_lifespan_of_the_other_closes_the_corpora_that_were_opened(tmp_path, site_with):
    file = tmp_path / "notes.airw"
    async with build(from_mapping({"a": "keys"}, name="notes", embedder="light"), store=file):
        pass
    api = app({"notes": file})

    @asynccontextmanager
    async def lifespan(_):
        async with api.router.lifespan_context(api):
            yield

    async with client(site_with(api, lifespan)) as asking:
        body = {"corpus": "notes", "query": "keys"}
        assert (await asking.post("/kb/search", json=body)).status_code == 200
        assert is_open_here(file)
    assert not is_open_here(file)


async def test_corpora_that_were_passed_open_stay_open():
    async with notes() as corpus:
        async with client(app([corpus])) as asking:
            await asking.get("/corpora")
        assert (await ask(corpus.store, Counts()))["artifacts"] == 3


WITHOUT_STARLETTE = """
import sys
sys.modules["starlette"] = None
import airw, airw.serving
from airw.errors import ArgumentError
try:
    airw.serving.app
except ArgumentError as error:
    print(error)
"""


def test_without_the_extra_one_line_names_it():
    found = subprocess.run([sys.executable, "-c", WITHOUT_STARLETTE], capture_output=True, text=True, check=True)
    assert found.stdout == "airw.serving needs starlette: pip install 'airw[serve]'\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"roots": "/srv/notes"}, "roots must be a list of folders, not '/srv/notes'"),
        ({"rerankers": "cross-encoder"}, "rerankers must be a list of strings, not 'cross-encoder'"),
        ({"limits": {"max_k": 5}}, "limits must be a ServingLimits object, not {'max_k': 5}"),
        ({"tokens": ["correct-horse-battery"]}, "tokens must be a list of Token objects"),
        ({"tokens": Token(value="correct-horse-battery")}, "tokens must be a list of Token objects"),
        ({"writable": "notes"}, "writable must be a list of names, not 'notes'"),
        ({"tokens": [Token(value="correct-horse-battery")], "writable": ["notes"]}, "writable is for a server without"),
    ],
)
def test_arguments_of_another_kind_are_refused_before_anything_is_served(options, message):
    with pytest.raises(ArgumentError, match=re.escape(message)):
        app(["notes"], **options)
