"""Every public name of `ir` exists in `airw.compat.ir`, or its error names a replacement."""

import asyncio
import dataclasses
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import threading

import ir
import numpy as np
import pytest

import airw.compat.ir as compat
from airw.compat import ir as again
from airw.errors import ArgumentError, CorpusNotFound, NoLedgerEntry

MODULES = sorted(each.name for each in pkgutil.iter_modules(ir.__path__) if not each.name.startswith("_"))


ABSENT = {
    *("ClaudeTurn", "CoverageReport", "MaintenancePolicy", "ReindexPolicy", "SynopsisPolicy"),
    *("default_policy_for_kind", "policy_for", "reports_coverage", "resolve_policy"),
}
"""Names that `airw.compat.ir` lacks; importing one raises an error with a replacement."""


def names_of(module):
    """Return the public names that a module of `ir` defines."""
    theirs = importlib.import_module(f"ir.{module}")
    return sorted(
        name
        for name, thing in vars(theirs).items()
        if not name.startswith("_") and (name.isupper() or getattr(thing, "__module__", "") == f"ir.{module}")
    )


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_a_module_exists_or_has_an_error_with_a_replacement(module):
    ours, silent, told = importlib.import_module(f"airw.compat.ir.{module}"), [], {}
    for name in names_of(module):
        try:
            getattr(ours, name)
        except ImportError as error:
            told[name] = str(error)
        except AttributeError:
            silent.append(name)
    assert silent == []
    for name, line in told.items():
        assert re.fullmatch(rf"airw\.compat\.ir\.{module} has no {name}: .+", line)


@pytest.mark.parametrize("name", sorted({*ir.__all__, *MODULES}))
def test_every_name_of_the_package_exists_or_has_an_error_with_a_replacement(name):
    if name in ABSENT:
        with pytest.raises(ImportError, match=rf"^airw\.compat\.ir has no {name}: .+$"):
            getattr(compat, name)
        with pytest.raises(ImportError, match=rf"^airw\.compat\.ir has no {name}: .+$"):
            exec(f"from airw.compat.ir import {name}")
    else:
        assert getattr(compat, name) is getattr(again, name)
        assert (name in compat.__all__) == (name in ir.__all__)


def test_a_name_that_neither_has_is_an_attribute_error():
    assert not hasattr(compat, "no_such_name")
    assert not hasattr(compat.store, "no_such_name")
    with pytest.raises(ImportError, match="cannot import name 'no_such_name'"):
        exec("from airw.compat.ir import no_such_name")


NEW = {
    "Chunked": {"tokenizer"},
    "Package": {"tokenizer"},
    "calibration_key": {"fusion", "rrf_k", "alpha", "bm25_sat_k"},
    "disclose": {"roots"},
}
"""Optional keyword parameters that exist only in this library."""


@pytest.mark.parametrize("name", sorted({*ir.__all__} - ABSENT))
def test_callables_have_the_same_parameters_in_the_same_order_and_are_not_async(name):
    ours = getattr(compat, name)
    theirs = getattr(ir, name)
    if getattr(theirs, "_is_protocol", False) or not (inspect.isfunction(theirs) or inspect.isclass(theirs)):
        return
    assert not inspect.iscoroutinefunction(ours)
    if name == "CorpusStore":
        return  # its constructor is an error
    there, here = inspect.signature(theirs).parameters, inspect.signature(ours).parameters
    positional = [each.name for each in there.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    places = [each.name for each in here.values() if each.kind is each.POSITIONAL_OR_KEYWORD]
    assert places[: len(positional)] == positional
    named = {each.name: each for each in there.values() if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)}
    assert {*named} <= {*here}
    for each in named.values():
        mine = here[each.name]
        assert (mine.default is mine.empty) == (each.default is each.empty), each.name
        if isinstance(each.default, (int, float, bool, str, tuple)) and each.name != "prompt":
            assert mine.default == each.default, each.name
    more = {each.name for each in here.values() if each.kind is each.KEYWORD_ONLY} - {*named}
    if not any(each.kind is each.VAR_KEYWORD for each in there.values()):
        assert more == NEW.get(name, set())


def test_a_record_has_its_vector_as_sixth_parameter_like_in_ir():
    vector = np.ones(2, np.float32)
    ours, theirs = (each.Record("i", "a", "k", 0, "t", vector, {"x": 1}) for each in (compat, ir))
    assert [each.name for each in dataclasses.fields(ours)] == [each.name for each in dataclasses.fields(theirs)]
    assert ours.vector is vector
    assert ours.metadata == {"x": 1}
    for wrong in [("i", "a", "k", 0, "t", {"x": 1}), ("i", "a", "k", 0, "t", vector, [1.0])]:
        with pytest.raises(ArgumentError, match=r"^a Record of ir is \(id, artifact_id, .*in the last two places$"):
            compat.Record(*wrong)


@pytest.mark.slow
def test_three_names_are_functions_and_modules():
    """`ir.traverse` is the function, and `from ir.traverse import …` reads the module."""
    code = """
import airw.compat.ir as ir
from airw.compat.ir.traverse import DFLT_SEED_K
from airw.compat.ir.select import DFLT_MAX_K
assert (DFLT_SEED_K, DFLT_MAX_K) == (10, 3)
assert ir.select([]).abstained
from airw.compat.ir import select, traverse, expand
assert select([]).reason == "abstain:no_candidates"
for function in (traverse, expand):
    try:
        function()
    except TypeError as error:
        assert "missing" in str(error)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.slow
def test_importing_it_loads_nothing_heavy():
    code = "import sys, airw.compat.ir; sys.exit(' '.join({'numpy', 'anyio', 'asyncio'} & {*sys.modules}) or 0)"
    subprocess.run([sys.executable, "-c", code], check=True)


def corpus():
    source = compat.CorpusSource.from_mapping({"a": "rotate the signing keys", "b": "bake a loaf"}, name="notes")
    return compat.build(source, store=compat.CorpusStore.memory(), embedder="light")


def test_within_an_event_loop_the_error_names_the_function_to_await():
    open_ = corpus()

    async def main():
        with pytest.raises(
            RuntimeError, match=r"^a sync call would stop the event loop .*: await airw\.search instead$"
        ):
            open_.search("keys")

    asyncio.run(main())


def test_many_threads_search_one_corpus_concurrently():
    open_, found = corpus(), []
    threads = [
        threading.Thread(target=lambda: found.append(open_.search("keys", k=1)[0].artifact_id)) for _ in range(8)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == ["a"] * 8


@pytest.mark.slow
def test_open_corpora_do_not_prevent_a_program_from_ending(tmp_path):
    """It may close them, drop them or keep them, and end with or without an error.

    No warning appears.
    """
    code = """
import airw.compat.ir as ir
source = ir.CorpusSource.from_mapping({"a": "rotate the signing keys"}, name="notes")
ir.build(source, embedder="light").close()
for _ in range(3):
    kept = ir.open_corpus("notes")
    forgotten = ir.open_corpus("notes").search("keys")
print(len(kept), forgotten[0].artifact_id, ir.search("notes", "keys")[0].source)
raise SystemExit(3)
"""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", code]
    environment = {"AIRW_HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "1 a notes\n", "")


def test_errors_are_those_of_airw_and_subclasses_of_those_of_ir():
    open_ = corpus()
    with pytest.raises(KeyError):
        compat.open_corpus("nowhere")
    with pytest.raises(CorpusNotFound):
        compat.search("nowhere", "keys")
    with pytest.raises(NoLedgerEntry):
        compat.records_for_artifact(open_, "c")
    with pytest.raises(KeyError):
        open_.store.get_record("none")
    for wrong in ({"mode": "sparse"}, {"fusion": "sum"}, {"bm25": {"k1": 1.5}}):
        with pytest.raises(ValueError, match=r"^[^\n]+$"):
            open_.search("keys", **wrong)


INSTEAD = {
    "a store of mappings": lambda: compat.CorpusStore({}, {}, {}, {}),
    "writing a record": lambda: compat.CorpusStore.memory().put_record(None),
    "writing a link": lambda: compat.CorpusStore.memory().set_links("a", {}),
    "sessions": compat.CorpusSource.from_claude_sessions,
    "repositories": lambda: compat.CorpusSource.from_packages(repos=list),
    "tokens of a model": lambda: compat.Chunked(token_model="x"),
    "a template that is a function": lambda: compat.Package(deps_template=str),
    "another place": lambda: compat.register("x", "files", storage={"backend": "s3"}),
    "synopses at night": lambda: compat.register("x", "files", maintenance={"synopsis": {"enabled": True}}),
    "files anywhere": lambda: compat.disclose(compat.select([compat.SearchHit("a", "k", 1.0, "", {"path": "/a"})])),
    "a mapping as a source": lambda: compat.build({"a": "text"}),
    "a gate by name": lambda: compat.with_synopsis(compat.WholeText(), synthesize=str, when="never"),
}


@pytest.mark.parametrize("what", INSTEAD)
def test_an_unsupported_use_is_an_error_in_one_line(what):
    with pytest.raises(ArgumentError, match=r"^[^\n]+$"):
        INSTEAD[what]()


def test_a_walk_bounds_policies_that_yield_nodes_forever():
    class Endless:
        def seed(self, state, store):
            return iter(int, 1)

        def score(self, state, node, store):
            return 0.0

        def expand(self, state, node, store):
            return iter(object, None)

        def node_id(self, node):
            return node

        def to_hit(self, state, node, score, depth):
            return compat.SearchHit(str(depth), "node", score, "")

    walked = compat.traverse("q", None, policy=Endless(), node_budget=5, max_depth=1, k=9)
    assert [hit.artifact_id for hit in walked] == ["0", "1", "1", "1", "1"]


def test_the_identity_formulator_returns_the_query_unchanged():
    assert compat.formulate.identity_formulator("  rotate KEYS ") == "  rotate KEYS "


def test_a_policy_without_its_methods_is_an_error_that_lists_them():
    with pytest.raises(ArgumentError, match=r"which has no score, expand, node_id, to_hit$"):
        compat.traverse("q", None, policy=type("Bare", (), {"seed": lambda *_: []})())
