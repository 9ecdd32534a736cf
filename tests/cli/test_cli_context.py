"""Whole documents within a budget, as a user sees them: `airw context`."""

import io
import json
import os
import re
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from airw.cli import main
from tests.support.drawing import examples

NOTES = {
    "index.md": "---\ntitle: Index\n---\nSee [[keys]] and [bread](bread.md).\n",
    "keys.md": "---\ntitle: Signing keys\nlinks:\n  - {id: vault.md, type: supports}\n---\nRotate the signing keys.\n",
    "vault.md": "# Vault\n\nWhere secrets rest.\n",
    "bread.md": "# Bread\n\nFlour, water, salt: süß.\n",
    "long.md": "# Long\n\n" + "A long story about keys. " * 200,
}


@pytest.fixture(scope="module")
def corpus_and_notes(tmp_path_factory):
    """Build a corpus that no test changes; return the folder of its notes and its file."""
    base = tmp_path_factory.mktemp("built")
    for name, text in NOTES.items():
        (base / "vault").mkdir(exist_ok=True)
        (base / "vault" / name).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRW_HOME", str(base))
        assert main(["build", str(base / "vault"), "--embedder", "light"]) == 0
    return base / "vault", base / "corpora" / "vault.airw"


@pytest.fixture(autouse=True)
def default_notes(corpus_and_notes, monkeypatch):
    """Make it the default corpus, and return the folder of its notes."""
    monkeypatch.setenv("AIRW_CORPUS", str(corpus_and_notes[1]))
    return corpus_and_notes[0]


@pytest.fixture
def output_of(output_of):
    """Return a function that runs the command successfully and returns its output."""
    return lambda *argv: output_of("context", *argv)


@pytest.fixture
def bundle_of(output_of):
    """Return a function that runs the command in JSON and returns the object it printed."""
    return lambda *argv: json.loads(output_of(*argv, "--format", "json"))


@pytest.fixture
def error_of(error):
    """Return a function that runs the command, which must fail, and returns its error line."""
    return lambda *argv: error("context", *argv)


@pytest.fixture
def stdin(monkeypatch):
    return lambda text: monkeypatch.setattr("sys.stdin", io.StringIO(text))


def ids(bundle):
    return [note["id"] for note in bundle["notes"]]


class TestSelectors:
    def test_a_walk_is_printed_in_its_order_with_links_and_whole_texts(self, output_of, default_notes):
        assert output_of("--walk", "keys.md", "--max-hops", "1", "--typed-only") == (
            "Notes of vault\n\n"
            f"# keys.md: Signing keys\nhop 0; via walk; {default_notes}/keys.md\n\nRotate the signing keys.\n\n"
            f"# vault.md: Vault\nhop 1; via walk:keys.md; {default_notes}/vault.md\n← supported-by  keys.md\n\n"
            "# Vault\n\nWhere secrets rest.\n\n"
        )

    def test_named_documents_come_first_then_walked_then_found_ones_without_duplicates(self, bundle_of):
        found = bundle_of(
            "--query", "bread", "-m", "lexical", "--walk", "keys", "--note", "vault.md", "--note", "long.md"
        )
        assert ids(found) == ["vault.md", "long.md", "keys.md", "index.md", "bread.md"]
        assert (found["store"], found["truncated"], found["left_out"], found["notes_count"]) == ("vault", False, {}, 5)
        assert {"from": "keys.md", "to": "vault.md", "type": "supports", "source": "typed"} in found["edges"]

    def test_several_walks_become_one_with_several_roots(self, bundle_of):
        assert ids(bundle_of("--walk", "vault.md", "--walk", "bread.md", "--max-hops", "0")) == ["vault.md", "bread.md"]

    @pytest.mark.parametrize(
        ("options", "found"),
        [
            (["--max-hops", "2"], ["index.md", "bread.md", "keys.md", "vault.md"]),
            (["--max-hops", "1"], ["index.md", "bread.md", "keys.md"]),
            (["--max-nodes", "2"], ["index.md", "bread.md"]),
            (["--exclude-type", "supports"], ["index.md", "bread.md", "keys.md"]),
            (["--direction", "in"], ["index.md"]),
        ],
    )
    def test_a_walk_has_the_limits_of_a_tree(self, bundle_of, options, found):
        assert ids(bundle_of("--walk", "index.md", *options)) == found

    def test_what_the_walk_left_out_is_reported(self, bundle_of, output_of):
        found = bundle_of("--walk", "index.md", "--max-hops", "1")
        assert (found["truncated"], found["left_out"]) == (True, {"max_hops": 1})
        assert output_of("--walk", "index.md", "--max-hops", "1").endswith("\n\nleft out: max_hops 1\n")

    def test_a_query_without_a_match_is_no_error(self, output_of, bundle_of):
        assert output_of("--query", "zebra", "-m", "lexical") == "Notes of vault\n\nno notes\n"
        assert bundle_of("--query", "zebra", "-m", "lexical")["notes"] == []

    @pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
    def test_a_query_ranks(self, bundle_of, mode):
        found = bundle_of("--query", "where secrets rest", "-k", "1", "-m", mode)
        assert ids(found) == ["vault.md"]
        assert re.fullmatch(r"query:\d+\.\d{4}", found["notes"][0]["via"])

    def test_documents_have_several_names(self, bundle_of, default_notes):
        assert ids(bundle_of("--note", "Signing Keys", "--note", default_notes / "bread.md", "--note", "vault")) == [
            "keys.md",
            "bread.md",
            "vault.md",
        ]

    def test_ids_are_read_from_standard_input(self, bundle_of, stdin):
        stdin("bread.md\n\n  vault.md  \r\nbread.md\n")
        assert ids(bundle_of("--note", "keys.md", "--note", "-", "--note", "long.md")) == [
            "keys.md",
            "bread.md",
            "vault.md",
            "long.md",
        ]

    def test_an_empty_standard_input_selects_no_document(self, output_of, stdin):
        stdin("")
        assert output_of("--note", "-") == "Notes of vault\n\nno notes\n"

    def test_a_tree_can_be_piped_into_it(self, bundle_of, stdin, capsys):
        assert main(["link", "tree", "index.md", "--format", "json"]) == 0
        tree = json.loads(capsys.readouterr().out)
        stdin("\n".join(node["id"] for node in tree["nodes"]))
        assert ids(bundle_of("--note", "-")) == [node["id"] for node in tree["nodes"]]


class TestBudget:
    @pytest.mark.slow
    @pytest.mark.parametrize("form", ["text", "json", "records"])
    def test_the_output_never_exceeds_the_budget_and_its_documents_are_whole_but_one(self, output_of, form):
        whole = output_of("--walk", "index.md", "--note", "long.md", "--format", form)
        texts = [text.split("---\n")[-1].strip() for text in NOTES.values()]
        passage = {"text": "only a passage of it", "json": '"content_truncated": true', "records": " truncated=true\n"}
        seen = set()
        for most in range(900, len(whole) + 1_000, 997):
            text = output_of("--walk", "index.md", "--note", "long.md", "--format", form, "--max-chars", most)
            assert len(text) <= most
            content = "\n".join(note["content"] for note in json.loads(text)["notes"]) if form == "json" else text
            shown = [each for each in texts if each in content]
            cut = text.partition("\n")[2].count(passage[form]) if form == "records" else text.count(passage[form])
            assert len(shown) + cut == len(re.findall(r'^N |^# \w+\.md|"via":', text, re.MULTILINE))
            assert cut <= 1
            seen.add(len(shown))
        assert seen >= {4, 5}

    @settings(max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        most=st.integers(300, 2_000),
        notes=st.lists(st.sampled_from(sorted(NOTES)), max_size=5),
        form=st.sampled_from(["text", "records"]),
    )
    def test_every_budget_is_kept(self, capsys, most, notes, form):
        chosen = [word for note in notes for word in ("--note", note)] or ["--query", "keys", "-m", "lexical"]
        code = main(["context", *chosen, "--max-chars", str(most), "--format", form])
        output = capsys.readouterr()
        assert (code, output.err) == (0, "")
        assert len(output.out) <= most

    def test_a_document_that_does_not_fit_is_cut_and_smaller_ones_follow(self, bundle_of):
        found = bundle_of("--note", "keys.md", "--note", "long.md", "--note", "bread.md", "--max-chars", "1500")
        assert ids(found) == ["keys.md", "long.md", "bread.md"]
        assert [note["content_truncated"] for note in found["notes"]] == [False, True, False]
        assert (found["truncated"], found["left_out"]) == (True, {})

    def test_estimated_tokens_are_marked_as_estimated(self, output_of, bundle_of):
        text = output_of("--note", "keys.md", "--note", "long.md", "--max-tokens", "150")
        assert text.startswith("Notes of vault; tokens are estimated, one for 4 bytes of UTF-8\n")
        assert "only a passage of it" in text
        assert 588 <= len(text.encode()) <= 600
        assert "estimated" in bundle_of("--note", "keys.md", "--max-tokens", "400")["tokens"]

    def test_a_tokenizer_counts_exactly(self, output_of, tmp_path):
        tokenizers = pytest.importorskip("tokenizers")
        words = tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")
        tokenizer = tokenizers.Tokenizer(words)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        chosen = ["--note", "keys.md", "--note", "vault.md", "--note", "long.md", "--note", "bread.md"]
        text = output_of(*chosen, "--max-tokens", "150", "--tokenizer", tmp_path / "tokenizer.json")
        assert "estimated" not in text
        assert len(tokenizer.encode(text).ids) <= 150
        assert text.endswith("\nleft out: max_tokens 1\n")


class TestForms:
    def test_records_have_a_header_one_line_per_document_and_texts_between_marks(self, output_of, default_notes):
        assert output_of("--note", "vault.md", "--note", "keys.md", "--format", "records") == (
            "H airw=1 records=1 store=vault mode=context notes=2 truncated=false\n"
            f'N vault.md - "Vault" tags=- path={default_notes}/vault.md hop=- via=note\n'
            "B vault.md lines=3\n# Vault\n\nWhere secrets rest.\nB-END vault.md\n"
            f'N keys.md - "Signing keys" tags=- path={default_notes}/keys.md hop=- via=note\n'
            "E keys.md supports vault.md typed\n"
            "B keys.md lines=1\nRotate the signing keys.\nB-END keys.md\n"
        )

    @pytest.mark.parametrize("form", ["text", "json", "records"])
    def test_a_file_gets_the_same_text_as_the_terminal(self, output_of, tmp_path, form):
        argv = ["--walk", "index.md", "--format", form]
        shown = output_of(*argv)
        assert output_of(*argv, "--output", tmp_path / "context") == ""
        assert (tmp_path / "context").read_text(encoding="utf-8") == shown


class TestMistakes:
    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            ([], "--note ID, --walk ID and --query TEXT"),
            (["keys.md"], "keys.md"),
            (["--note", "keyz"], "'keys.md'"),
            (["--walk", "keyz"], "'keys.md'"),
            (["--note", "-", "--note", "-"], "once"),
            (["--note", "keys.md", "--max-chars", "10"], "--max-chars must be at least"),
            (["--note", "keys.md", "--max-chars", "0"], "--max-chars must be"),
            (["--note", "keys.md", "--max-tokens", "-1"], "--max-tokens must be"),
            (["--note", "keys.md", "--max-tokens", "many"], "--max-tokens"),
            (["--note", "keys.md", "--tokenizer", "x.json"], "--max-tokens N"),
            (["--query", "x", "-k", "-1"], "-k: must be"),
            (["--query", "x", "-m", "sparse"], "sparse"),
            (["--walk", "keys.md", "--max-hops", "-1"], "--max-hops must be"),
            (["--walk", "keys.md", "--typed-only", "--inline-only"], "together match no link"),
            (["--walk", "keys.md", "--timeout", "-1"], "timeout must be"),
            (["--walk", "keys.md", "--direction", "up"], "up"),
            (["--note", "keys.md", "--format", "html"], "html"),
            (["--note", "keys.md", "-c", "nowhere"], "nowhere"),
            (["--note", "keys.md", "--output", "/no/such/folder/file"], "/no/such/folder/file"),
        ],
    )
    def test_they_are_one_line_and_exit_with_2(self, error_of, argv, said):
        assert said in error_of(*argv)

    def test_a_missing_tokenizer_file_is_named(self, error_of):
        pytest.importorskip("tokenizers")
        said = error_of("--note", "keys.md", "--max-tokens", "9", "--tokenizer", "/no/such.json")
        assert "/no/such.json" in said

    def test_a_tokenizer_needs_its_package(self, error_of, monkeypatch):
        monkeypatch.setitem(sys.modules, "tokenizers", None)
        assert "pip install tokenizers" in error_of(
            "--note", "keys.md", "--max-tokens", "100", "--tokenizer", "tokenizer.json"
        )


@pytest.mark.slow
class TestPipes:
    def test_ids_come_from_a_pipe_and_a_reader_that_closes_it_early_is_no_error(self):
        airw = f"'{sys.executable}' -u -m airw"
        script = f"printf 'keys.md\\nlong.md\\nvault.md\\n' | {airw} context --note - | head -n 1"
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {script}"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=dict(os.environ),
        )
        assert (done.stdout, done.stderr) == ("Notes of vault\n", "")
