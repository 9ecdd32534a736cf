"""`traverse` offers each policy of the library, with its parameters."""

import dataclasses
import json

import pytest

from airw import policies
from airw.cli import main
from airw.cli.policies import describe_policies, make_policy, parse_parameters
from airw.policies.path_coverage import DEFAULT_POLICY
from airw.policies.specs import list_policies, name_of
from tests.support.commands import COMMANDS

NOTES = {
    "index.md": "---\ntitle: Index\ntags: [start]\n---\n# Index\n\n[keys](keys.md) [bread](bread.md)\n",
    "keys.md": "# Signing keys\n\nRotate the signing keys. [vault](vault.md)\n",
    "vault.md": "# Vault\n\nThe signing keys lie here.\n",
    "bread.md": "# Bread\n\nFlour, water, salt.\n",
}


@pytest.fixture(scope="module")
def home_of_walks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("walks")
    for name, text in NOTES.items():
        (folder / "notes").mkdir(exist_ok=True)
        (folder / "notes" / name).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRW_HOME", str(folder))
        assert main(["build", str(folder / "notes"), "--embedder", "light"]) == 0
    return folder


@pytest.fixture(autouse=True)
def notes(home_of_walks, monkeypatch):
    monkeypatch.setenv("AIRW_HOME", str(home_of_walks))


def test_each_walk_policy_of_the_library_is_offered():
    walks = {
        kind
        for name in policies.__all__
        if hasattr(kind := getattr(policies, name), "to_hits") and kind not in (policies.PerNode, policies.Strategy)
    }
    assert set(list_policies().values()) == walks
    [choices] = [action.choices for action in COMMANDS["traverse"]._actions if action.dest == "policy"]
    assert list(choices) == list(list_policies())


@pytest.mark.parametrize("form", ["text", "json", "html"])
@pytest.mark.parametrize("name", list_policies())
def test_each_policy_walks_in_each_format(name, form, output_of):
    more = {"reverse-dependency": ["--set", "seeds=keys.md", "--set", "edge_type=inline"]}
    more["link-walk"] = ["--set", "roots=index.md"]
    argv = ["traverse", "signing keys", "--policy", name, *more.get(name, []), "--format", form]
    if (name, form) == ("collapsed-tree", "html"):  # it goes from documents to their parts
        output_of(*argv, code=2, err="airw: --format html draws links, and this walk of collapsed-tree .*\n")
        return
    told = output_of(*argv)
    if form == "json":
        *hits, summary = [json.loads(line) for line in told.splitlines()]
        assert {hit["type"] for hit in hits} <= {"hit"}
        assert summary["type"] == "summary"
    elif form == "html":
        assert told.startswith("<!DOCTYPE html>")
        assert "keys.md" in told
    else:
        assert told.splitlines()[-1].startswith("left out: ")


@pytest.mark.parametrize("name", list_policies())
def test_without_options_a_policy_is_that_of_the_library(name):
    needed = {"seeds": ["a"]} if name == "reverse-dependency" else {"roots": ["a"]} if name == "link-walk" else {}
    kind = list_policies()[name]
    assert make_policy(name, needed, start=None, direction=None) == kind(**needed)


def test_the_help_lists_each_parameter_with_its_default():
    told = describe_policies()
    for name, kind in list_policies().items():
        paragraph = told.replace(" (default)", "").partition(f"  {name}: ")[2]
        for field in dataclasses.fields(kind):
            if field.name not in ("scorer", "path_scorer", "inverses"):
                assert field.name in paragraph
    assert told.count(" (default): ") == 1
    assert f"{name_of(DEFAULT_POLICY)} (default): " in told
    assert "width=4" in told
    assert "seeds (needed)" in told


@pytest.mark.parametrize(
    ("name", "words", "parameters"),
    [
        ("beam", ["width=8"], {"width": 8}),
        ("beam", ["max_depth=null", "seeding=lexical"], {"max_depth": None, "seeding": "lexical"}),
        ("beam", ["seeding=titles,hybrid"], {"seeding": ["titles", "hybrid"]}),
        ("beam", ["max-depth=1"], {"max_depth": 1}),
        ("eager", ["types=cites,supports"], {"types": ["cites", "supports"]}),
        ("eager", ['roots=["a, b"]'], {"roots": ["a, b"]}),
        ("eager", ['edges=[["keywords", "keywords"]]'], {"edges": [("keywords", "keywords")]}),
        ("scored", ['scope={"keep": {"status": "Final"}}'], {"scope": policies.Scope(keep={"status": "Final"})}),
        ("link-walk", ["weighted=true", "exclude=cites"], {"weighted": True, "exclude": ["cites"]}),
        ("mmr", ["lambda_mult=0.25"], {"lambda_mult": 0.25}),
    ],
)
def test_values_are_json_or_text(name, words, parameters):
    assert parse_parameters(name, words) == parameters
    if "roots" not in parameters:
        make_policy(name, parameters | ({"roots": ["a"]} if name == "link-walk" else {}), start=None, direction=None)


def test_start_and_direction_set_what_the_policy_calls_them():
    assert make_policy("beam", {}, start=2, direction="in") == policies.Beam(seed_k=2, direction="in")
    assert make_policy("eager", {}, start=2, direction=None) == policies.Eager(start_k=2)


def test_roots_are_named_as_everywhere_else(output_of):
    told = output_of("traverse", "bread", "--set", "roots=Index", "--start", "0", "--format", "json")
    assert json.loads(told.splitlines()[0])["artifact_id"] == "index.md"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--policy", "beem"], "'beam'"),
        (["--policy", "beam", "--set", "wdith=8"], "policy beam has no parameter 'wdith'; it has seeding, "),
        (["--policy", "beam", "--set", "width"], "--set takes NAME=VALUE"),
        (["--policy", "beam", "--set", "width=0"], "width must be"),
        (["--policy", "beam", "--set", "width=wide"], "width must be"),
        (["--policy", "beam", "--set", "width=1", "--set", "width=2"], "--set width is given twice"),
        (["--policy", "beam", "--set", "seed_k=1", "--start", "2"], "--start is given twice"),
        (["--policy", "beam", "--set", "scorer=x"], "no parameter 'scorer'"),
        (["--policy", "scored", "--set", "scope=x"], "--set scope takes filters"),
        (["--policy", "collapsed-tree", "--direction", "in"], "policy collapsed-tree takes no --direction"),
        (["--policy", "reverse-dependency"], "policy reverse-dependency needs `--set seeds=ID"),
        (["--policy", "reverse-dependency", "--set", "seeds=nowhere"], "'nowhere'"),
        (["--policy", "link-walk"], "policy link-walk needs `--set roots=ID,…` or `--start N`"),
        (["--set", "roots=nowhere"], "'nowhere'"),
    ],
)
def test_mistakes_are_one_line(argv, said, error):
    assert said in error("traverse", "keys", *argv)
