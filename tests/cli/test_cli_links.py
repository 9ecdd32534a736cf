"""Commands that follow links, as a user sees them: link tree, path, list, check."""

import json
import os
import re
import subprocess
import sys

import pytest

from airw.cli import main

NOTES = {
    "index.md": "---\ntitle: Index\nlinks:\n  - {id: keys.md, type: part-of}\n---\n"
    "See [[keys]] and [bread](bread.md).\n",
    "keys.md": "---\ntitle: Signing keys\ntype: policy\ntags: [ops]\nlinks:\n  - {id: vault.md, type: supports}\n---\n"
    "Rotate. See [[nowhere]] and\n[[log]].\n",
    "vault.md": "# Vault\n\nBacked up as in [backup](ops/backup.md).\n",
    "ops/backup.md": "# Backup\n\nCopies — at night. See [[index]].\n",
    "bread.md": "# Bread\n\nFlour, water, salt.\n",
    "lone.md": "# Lone\n\nLinked with nothing.\n",
    "a/log.md": "# One log\n",
    "b/log.md": "# Other log\n",
}


def write_notes(folder):
    for name, text in NOTES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def corpus_and_notes(tmp_path_factory):
    """Build a corpus that no test changes; return the folder of its notes and its file."""
    base = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRW_HOME", str(base))
        assert main(["build", str(write_notes(base / "vault")), "--embedder", "light"]) == 0
    return base / "vault", base / "corpora" / "vault.airw"


@pytest.fixture
def default_notes(corpus_and_notes, monkeypatch):
    """Make it the default corpus, and return the folder of its notes."""
    monkeypatch.setenv("AIRW_CORPUS", str(corpus_and_notes[1]))
    return corpus_and_notes[0]


@pytest.fixture
def vault(tmp_path, capsys):
    """Build a corpus that the test may change, and return the folder of its notes."""
    assert main(["build", str(write_notes(tmp_path / "vault")), "--embedder", "light"]) == 0
    capsys.readouterr()
    return tmp_path / "vault"


def process(*argv, env=None, **options):
    command = [sys.executable, "-m", "airw", *map(str, argv)]
    return subprocess.run(
        command, capture_output=True, timeout=60, check=False, env={**os.environ, **(env or {})}, **options
    )


def ids(text):
    return [node["id"] for node in json.loads(text)["nodes"]]


@pytest.mark.usefixtures("default_notes")
class TestTree:
    def test_text_is_an_indented_tree_that_marks_repeated_documents(self, output_of):
        assert output_of("link", "tree", "index.md") == (
            "index.md  Index\n"
            "├─ → part-of  keys.md  Signing keys\n"
            "│  └─ → supports  vault.md  Vault\n"
            "├─ → related  bread.md  Bread\n"
            "├─ → related  keys.md  Signing keys (seen)\n"
            "└─ ← related  ops/backup.md  Backup\n"
            "   └─ ← related  vault.md  Vault (seen)\n"
        )

    def test_the_last_line_reports_what_was_left_out(self, output_of):
        assert output_of("link", "tree", "index.md", "--max-hops", "1").splitlines()[-1] == "left out: max_hops 1"
        assert "left out: max_nodes" in output_of("link", "tree", "index.md", "--max-nodes", "2")
        assert "left out: max_edges" in output_of("link", "tree", "index.md", "--max-edges", "1")
        assert "left out: max_fanout" in output_of("link", "tree", "index.md", "--max-fanout", "1")
        assert output_of("link", "tree", "index.md", "--timeout", "0") == "left out: timeout unknown\n"

    def test_several_roots_have_a_tree_each(self, output_of):
        told = output_of("link", "tree", "bread.md", "lone.md", "--direction", "out")
        assert told == "bread.md  Bread\nlone.md  Lone\n"

    @pytest.mark.parametrize(
        ("options", "found"),
        [
            ([], ["keys.md", "index.md", "vault.md", "ops/backup.md", "bread.md"]),
            (["-d", "out"], ["keys.md", "vault.md", "ops/backup.md", "index.md"]),
            (["-d", "IN"], ["keys.md", "index.md", "ops/backup.md", "vault.md"]),
            (["--type", "supports"], ["keys.md", "vault.md"]),
            (["-T", "supports,has-part"], ["keys.md", "index.md", "vault.md"]),
            (["--types", "supports", "--type", "has-part"], ["keys.md", "index.md", "vault.md"]),
            (["--type", "part-of"], ["keys.md"]),
            (["--type", "part-of", "--no-inverses"], ["keys.md", "index.md"]),
            (["--type", "holds", "--inverse", "part-of=holds"], ["keys.md", "index.md"]),
            (["--exclude-type", "related", "--exclude-types", "supports"], ["keys.md", "index.md"]),
            (["--typed-only"], ["keys.md", "index.md", "vault.md"]),
            (["--inline-only", "--max-hops", "1"], ["keys.md", "index.md"]),
        ],
    )
    def test_links_are_chosen_by_direction_type_and_origin(self, output_of, options, found):
        assert sorted(ids(output_of("link", "tree", "keys.md", *options, "--format", "json"))) == sorted(found)

    def test_json_is_one_object_that_follows_its_schema(self, output_of):
        told = json.loads(output_of("link", "tree", "index.md", "--format", "json"))
        schema = json.loads(output_of("link", "tree", "--schema"))
        assert told.keys() >= {"root", "direction", "max_hops", "truncated", "nodes", "edges", "spanning_tree"}
        assert set(told) == set(schema["properties"])
        assert (told["root"], told["max_hops"], told["truncated"]) == ("index.md", 3, False)
        assert {"from": "index.md", "to": "keys.md", "type": "part-of", "source": "typed"} in told["edges"]

    def test_records_have_an_exact_budget(self, output_of):
        whole = output_of("link", "tree", "index.md", "--format", "records")
        cut = output_of("link", "tree", "index.md", "--format", "records", "--max-chars", len(whole) - 1)
        assert len(cut) < len(whole)
        assert "truncated=true" in cut.splitlines()[0]

    def test_other_formats_are_whole_documents(self, output_of):
        assert output_of("link", "tree", "index.md", "--format", "dot").startswith("digraph {")
        page = output_of("link", "tree", "index.md", "--format", "html")
        assert page.lower().startswith("<!doctype html>")
        assert "Signing keys" in page

    @pytest.mark.parametrize("form", ["text", "json", "records", "dot", "html"])
    def test_a_file_gets_the_same_text_as_the_terminal(self, output_of, tmp_path, form):
        argv = ["link", "tree", "index.md", "--format", form]
        shown = output_of(*argv)
        assert output_of(*argv, "--output", tmp_path / "tree") == ""
        assert (tmp_path / "tree").read_text(encoding="utf-8") == shown

    def test_costs_can_be_counted_instead_of_hops(self, output_of):
        assert sorted(ids(output_of("link", "tree", "index.md", "--weighted", "--format", "json"))) == [
            "bread.md",
            "index.md",
            "keys.md",
            "ops/backup.md",
            "vault.md",
        ]


class TestWords:
    @pytest.mark.parametrize("word", ["keys.md", "keys", "Signing keys", "SIGNING KEYS"])
    def test_a_document_has_several_names(self, output_of, default_notes, word):
        assert output_of("link", "path", word, "keys.md").startswith("keys.md  Signing keys\n")

    def test_a_path_means_the_document_of_that_file(self, output_of, default_notes, monkeypatch):
        assert output_of("link", "list", default_notes / "ops" / "backup.md").startswith("→ related  inline  index.md")
        monkeypatch.chdir(default_notes / "ops")
        assert output_of("link", "list", "./backup.md").startswith("→ related  inline  index.md")

    @pytest.mark.slow
    def test_an_id_takes_precedence_over_a_path(self, output_of, vault, monkeypatch):
        (vault / "ops" / "keys.md").write_text("# Other keys\n", encoding="utf-8")
        output_of("build", vault)
        monkeypatch.chdir(vault / "ops")
        assert "Signing keys" in output_of("link", "tree", "keys.md")
        assert "Other keys" in output_of("link", "tree", "./keys.md")

    def test_a_corpus_is_named_by_an_option_or_the_environment(self, output_of, vault, error, monkeypatch):
        output_of("build", vault, "--name", "second", "--embedder", "light")
        assert "put its name first" in error("link", "tree", "index.md")
        assert output_of("link", "tree", "lone.md", "-c", "second") == "lone.md  Lone\n"
        monkeypatch.setenv("AIRW_CORPUS", "vault")
        assert output_of("link", "tree", "lone.md") == "lone.md  Lone\n"


@pytest.mark.usefixtures("default_notes")
class TestPath:
    def test_each_hop_has_an_arrow_a_type_an_id_and_a_title(self, output_of):
        assert output_of("link", "path", "bread.md", "vault.md", "--type", "related") == (
            "bread.md  Bread\n← related  index.md  Index\n← related  ops/backup.md  Backup\n"
            "← related  vault.md  Vault\n3 hops\n"
        )

    def test_options_may_stand_between_the_ends(self, output_of):
        assert output_of("link", "path", "keys.md", "-d", "out", "vault.md").endswith("\n1 hop\n")

    def test_a_missing_path_is_reported_with_exit_code_1(self, output_of):
        assert output_of("link", "path", "lone.md", "keys.md", code=1) == (
            "no path from lone.md to keys.md within 10 hops\nthere is no path of any length\n"
        )

    def test_a_limit_that_may_hide_a_path_is_reported(self, output_of):
        told = output_of("link", "path", "bread.md", "vault.md", "--max-hops", "1", code=1)
        assert re.fullmatch(r"no path from bread.md to vault.md within 1 hop\nleft out: max_hops \d+\n", told)
        late = output_of("link", "path", "bread.md", "vault.md", "--timeout", "0", code=1)
        assert late.endswith("\nleft out: timeout unknown\n")

    def test_json_is_one_object_that_follows_its_schema(self, output_of):
        told = json.loads(output_of("link", "path", "keys.md", "vault.md", "--format", "json"))
        assert set(told) == set(json.loads(output_of("link", "path", "--schema"))["properties"])
        assert (told["found"], told["path_length"], [node["id"] for node in told["nodes"]]) == (
            True,
            1,
            ["keys.md", "vault.md"],
        )
        missed = json.loads(output_of("link", "path", "keys.md", "lone.md", "--format", "json", code=1))
        assert (missed["found"], missed["nodes"], missed["truncated"]) == (False, [], False)

    def test_there_are_other_formats(self, output_of):
        argv = ["link", "path", "keys.md", "vault.md", "--format"]
        assert "mode=link.path from=keys.md to=vault.md" in output_of(*argv, "records")
        assert output_of(*argv, "dot").startswith("digraph {")
        assert "Signing keys" in output_of(*argv, "html")


@pytest.mark.usefixtures("default_notes")
class TestList:
    def test_links_are_listed_in_both_directions_then_unresolved_ones_with_their_lines(self, output_of):
        assert output_of("link", "list", "keys.md") == (
            "→ supports  typed  vault.md  Vault\n"
            "← has-part  typed  index.md  Index\n"
            "← related  inline  index.md  Index\n"
            "→ related  inline  keys.md:8: 'nowhere' leads nowhere\n"
            "→ related  inline  keys.md:9: 'log' may be a/log.md, b/log.md\n"
        )

    def test_links_are_chosen_like_in_a_tree(self, output_of):
        def count(*options):
            return len(output_of("link", "list", "keys.md", *options).splitlines())

        assert (count("-d", "in"), count("-d", "out"), count("--typed-only"), count("--inline-only")) == (2, 3, 2, 3)
        assert (count("--type", "has-part"), count("--exclude-type", "related")) == (1, 2)
        assert output_of("link", "list", "keys.md", "-d", "in", "--no-inverses", "--typed-only").startswith("← part-of")

    def test_a_document_without_links_prints_a_line(self, output_of):
        assert output_of("link", "list", "lone.md") == "no links found\n"
        assert output_of("link", "list", "lone.md", "--format", "json") == "[]\n"

    def test_json_is_an_array_of_objects_with_the_same_keys(self, output_of):
        told = json.loads(output_of("link", "list", "keys.md", "--format", "json"))
        assert len({tuple(each) for each in told}) == 1
        assert told[0] == {
            "direction": "out",
            "id": "vault.md",
            "type": "supports",
            "source": "typed",
            "title": "Vault",
            "state": "resolved",
            "ref": None,
            "candidates": [],
            "file": None,
            "line": None,
        }
        assert (told[-1]["id"], told[-1]["ref"], told[-1]["candidates"], told[-1]["line"]) == (
            None,
            "log",
            ["a/log.md", "b/log.md"],
            9,
        )

    def test_records_are_lines(self, output_of):
        assert output_of("link", "list", "keys.md", "--format", "records").splitlines() == [
            "H airw=1 records=1 mode=link.list id=keys.md direction=both truncated=false",
            "E keys.md supports vault.md typed",
            "E index.md part-of keys.md typed",
            "E index.md related keys.md inline",
            "U keys.md related nowhere inline candidates=- file=keys.md line=8",
            "U keys.md related log inline candidates=a/log.md,b/log.md file=keys.md line=9",
        ]


class TestCheck:
    def test_it_summarizes_the_graph_and_lists_unresolved_links_on_demand(self, default_notes, output_of):
        short, long = output_of("link", "check"), output_of("link", "check", "-v")
        assert "links of type related, inline, dangling: 1\n" in short
        assert long == short + (
            "keys.md:8: 'nowhere' leads nowhere (related, inline)\n"
            "keys.md:9: 'log' may be a/log.md, b/log.md (related, inline)\n"
        )

    @pytest.mark.slow
    def test_strict_fails_if_a_link_is_unresolved(self, output_of, vault):
        output_of("link", "check", "--strict", code=1)
        (vault / "nowhere.md").write_text("# Nowhere\n", encoding="utf-8")
        output_of("build", vault)
        output_of("link", "check", "--strict")

    def test_json_is_one_object(self, default_notes, output_of):
        told = json.loads(output_of("link", "check", "--format", "json", "-v"))
        assert (told["type"], told["name"], told["artifacts"]) == ("check", "vault", 8)
        assert [(each["id"], each["ref"], each["state"]) for each in told["unresolved"]] == [
            ("keys.md", "nowhere", "dangling"),
            ("keys.md", "log", "ambiguous"),
        ]
        assert "unresolved" not in json.loads(output_of("link", "check", "--format", "json"))

    def test_a_build_reports_unresolved_links_too(self, output_of, vault):
        assert "(1 dangling, 1 ambiguous; `airw link check -c vault -v` lists them)\n" in output_of("build", vault)
        lines = r"airw: keys\.md:8: 'nowhere' leads nowhere .*\nairw: keys\.md:9: 'log' may be .*\n"
        assert "(1 dangling, 1 ambiguous)\n" in output_of("build", vault, "-v", err=lines)

    def test_info_counts_links_by_type_origin_and_state(self, vault, output_of):
        assert "  related, inline 1 ambiguous, 1 dangling, 4 resolved\n" in output_of("info")
        told = json.loads(output_of("info", "--format", "json"))["links"]
        assert {"type": "supports", "origin": "typed", "state": "resolved", "count": 1} in told


class TestMistakes:
    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["tree"], "airw link tree [CORPUS] ID"),
            (["tree", "keyz"], "'keys.md'"),
            (["tree", "keyz.md", "index.md"], "name 'keyz.md'; similar: 'keys.md'"),
            (["tree", "log"], "'a/log.md', 'b/log.md'"),
            (["tree", "keys.md", "--direction", "sideways"], "sideways"),
            (["tree", "keys.md", "--max-hops", "-1"], "--max-hops must be"),
            (["tree", "keys.md", "--max-hops", "two"], "--max-hops"),
            (["tree", "keys.md", "--max-nodes", "-1"], "--max-nodes must be"),
            (["tree", "keys.md", "--max-edges", "-1"], "--max-edges must be"),
            (["tree", "keys.md", "--max-fanout", "-1"], "--max-fanout must be"),
            (["tree", "keys.md", "--timeout", "-1"], "--timeout must be"),
            (["tree", "keys.md", "--timeout", "nan"], "--timeout must be"),
            (["tree", "keys.md", "--typed-only", "--inline-only"], "together match no link"),
            (["tree", "keys.md", "--type", "a,,b"], "--type takes"),
            (["tree", "keys.md", "--exclude-type", ""], "--exclude-type takes"),
            (["tree", "keys.md", "--inverse", "cites"], "TYPE=NAME"),
            (["tree", "keys.md", "--inverse", "=cited"], "TYPE=NAME"),
            (["tree", "keys.md", "--inverse", "a=b", "--no-inverses"], "--no-inverses"),
            (["tree", "keys.md", "--max-chars", "100"], "--format records"),
            (["tree", "keys.md", "--format", "records", "--max-chars", "5"], "--max-chars must be at least"),
            (["tree", "keys.md", "--format", "xml"], "xml"),
            (["tree", "keys.md", "-c", "nowhere"], "nowhere"),
            (["tree", "keys.md", "--format", "dot", "--output", "/no/such/folder/file"], "/no/such/folder/file"),
            (["path", "keys.md"], "FROM TO"),
            (["path", "keys.md", "vault.md", "bread.md"], "FROM TO"),
            (["path", "keys.md", "nothing-like-it"], "nothing-like-it"),
            (["path", "keys.md", "vault.md", "--max-hops", "-1"], "--max-hops must be"),
            (["path", "keys.md", "vault.md", "--timeout", "nan"], "--timeout"),
            (["path", "keys.md", "vault.md", "--timeout", "-1"], "--timeout"),
            (["list"], "ID"),
            (["list", "keys.md", "bread.md"], "exactly one document"),
            (["list", "keyz"], "'keys.md'"),
            (["check", "keys.md"], "keys.md"),
            (["sideways"], "sideways"),
            ([], "COMMAND"),
        ],
    )
    def test_they_are_one_line_and_exit_with_2(self, default_notes, error, argv, said):
        assert said in error("link", *argv)

    def test_the_error_about_a_file_that_is_not_indexed_mentions_that_it_exists(self, vault, error):
        (vault / "new.md").write_text("# New\n", encoding="utf-8")
        assert "(the file exists, but is not indexed)" in error("link", "tree", vault / "new.md")

    def test_a_schema_needs_no_corpus(self, capsys):
        assert main(["link", "tree", "--schema"]) == main(["link", "path", "--schema"]) == 0
        assert len([json.loads(line) for line in capsys.readouterr().out.splitlines()]) == 2


@pytest.mark.slow
class TestPipes:
    def test_a_reader_that_closes_the_pipe_early_is_no_error(self, vault):
        for name in range(200):
            (vault / f"more{name:03}.md").write_text("[[index]]\n", encoding="utf-8")
        assert main(["build", str(vault)]) == 0
        command = f"'{sys.executable}' -u -m airw link tree index.md | head -n 1"
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.stdout, done.stderr) == ("index.md  Index\n", "")

    def test_a_terminal_without_the_characters_gets_escapes(self, default_notes):
        text = process("link", "tree", "index.md", env={"PYTHONIOENCODING": "ascii"})
        assert (text.returncode, text.stderr) == (0, b"")
        assert b"\\u251c\\u2500 \\u2192 part-of  keys.md" in text.stdout
        told = process("context", "--note", "ops/backup.md", "--format", "json", env={"PYTHONIOENCODING": "ascii"})
        assert "Copies — at night." in json.loads(told.stdout)["notes"][0]["content"]
