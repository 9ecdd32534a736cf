"""The command line as a user sees it: build, search, traverse, and commands about corpora."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from airw.cli import main

NOTES = {
    "keys.md": "---\ntitle: Signing keys\nstatus: Final\n---\nRotate the signing keys. See [vault](vault.md).\n",
    "vault.md": "# Vault\n\nWhere secrets rest. Backed up as in [backup](ops/backup.md).\n",
    "ops/backup.md": "# Backup\n\nCopies at night. Missing: [gone](nowhere.md).\n",
    "bread.md": "# Bread\n\nFlour, water, salt.\n",
}


@pytest.fixture
def notes(tmp_path):
    for name, text in NOTES.items():
        file = tmp_path / "notes" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path / "notes"


@pytest.fixture
def corpus(notes, capsys):
    assert main(["build", str(notes), "--embedder", "light"]) == 0
    capsys.readouterr()
    return "notes"


def run(*argv, **options):
    command = [sys.executable, "-m", "airw", *argv]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **options)


# A process that a shell began in the background ignores interrupts, and so do those that it starts.
HEARS_INTERRUPTS = """
import signal, sys
from airw.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main())
"""


class TestBuild:
    def test_it_reports_its_changes_and_the_contents_of_the_corpus(self, notes, capsys):
        assert main(["build", str(notes), "--embedder", "light"]) == 0
        output = capsys.readouterr()
        assert re.match(r"notes: 4 added, 0 updated, 0 unchanged, 0 removed in \d+\.\d s\n", output.out)
        assert output.out.endswith(
            "corpora/notes.airw contains 4 documents, 8 surfaces, 3 links "
            "(1 dangling; `airw link check -c notes -v` lists them)\n"
        )
        assert output.err == ""

    def test_it_says_what_is_left_out_and_how_to_list_it(self, notes, capsys):
        for name in (".trash/old.md", ".obsidian/x.md", "drafts/plan.md"):
            (notes / name).parent.mkdir()
            (notes / name).write_text("text")
        (notes / ".gitignore").write_text("drafts/\n")
        assert main(["build", str(notes), "--embedder", "light"]) == 0
        line = "left out: 2 hidden or named node_modules, 1 named in .gitignore; `airw coverage notes -v` lists them\n"
        assert line in capsys.readouterr().out
        assert main(["coverage", "notes", "-v"]) == 0
        assert ".trash/" in capsys.readouterr().out
        assert main(["maintain", "notes", "--format", "json"]) == 0
        outcome = json.loads(capsys.readouterr().out.splitlines()[0])
        assert outcome["report"]["left_out"] == {"hidden or named node_modules": 2, "named in .gitignore": 1}

    def test_pattern_and_hidden_choose_the_files_of_this_build_and_the_next_ones(self, notes, capsys):
        (notes / ".trash").mkdir()
        (notes / ".trash" / "old.md").write_text("deleted")
        (notes / "plan.txt").write_text("plan")
        for again in (["--pattern", r"old\.md$|\.txt$", "--hidden"], [], ["--hidden"]):
            assert main(["build", str(notes), "--embedder", "light", *again]) == 0
            assert "contains 2 documents" in capsys.readouterr().out
        assert main(["build", "notes"]) == 0
        assert "0 added, 0 updated, 2 unchanged, 0 removed" in capsys.readouterr().out
        assert main(["build", str(notes), "--pattern", r"\.md$"]) == 0
        assert "4 added, 0 updated, 1 unchanged, 1 removed" in capsys.readouterr().out

    @pytest.mark.parametrize("option", [["--hidden"], ["--pattern", "x"]])
    def test_pattern_and_hidden_are_for_folders(self, notes, corpus, option, tmp_path, error):
        (tmp_path / "x.jsonl").write_text('{"id": 1, "text": "a"}')
        assert "but 'notes' is the name of a corpus" in error("build", "notes", *option)
        assert "is a file" in error("build", str(tmp_path / "x.jsonl"), *option)

    def test_a_second_build_needs_no_flag_and_indexes_only_what_changed(self, notes, corpus, capsys):
        (notes / "bread.md").write_text("# Bread\n\nRye.\n", encoding="utf-8")
        (notes / "vault.md").unlink()
        assert main(["build", str(notes)]) == 0
        assert "0 added, 1 updated, 2 unchanged, 1 removed" in capsys.readouterr().out

    def test_no_prune_keeps_removed_documents(self, notes, corpus, capsys):
        (notes / "vault.md").unlink()
        main(["build", str(notes), "--no-prune"])
        assert "3 unchanged, 0 removed" in capsys.readouterr().out

    def test_an_unreadable_file_is_reported_and_the_rest_is_indexed(self, notes, capsys):
        (notes / "bad.md").write_bytes(b"caf\xe9")
        assert main(["build", str(notes), "--embedder", "light"]) == 1
        output = capsys.readouterr()
        assert "4 added" in output.out
        assert output.err.startswith("airw: left out: bad.md: ")

    def test_json_lines_are_a_source_too(self, tmp_path, capsys):
        file = tmp_path / "items.jsonl"
        file.write_text('{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n', encoding="utf-8")
        assert main(["build", str(file), "--embedder", "light", "--name", "items"]) == 0
        assert "items: 2 added" in capsys.readouterr().out

    def test_a_missing_folder_is_one_line(self, tmp_path, capsys, error):
        assert "nowhere" in error("build", str(tmp_path / "nowhere"), "--embedder", "light")
        assert main(["ls"]) == 0
        assert "no corpora yet" in capsys.readouterr().out

    def test_an_empty_folder_is_one_line(self, tmp_path, error):
        assert str(tmp_path) in error("build", str(tmp_path), "--embedder", "light", "--name", "empty")

    def test_an_emptied_folder_does_not_empty_the_corpus(self, notes, corpus, capsys, error):
        for file in notes.rglob("*.md"):
            file.unlink()
        error("build", str(notes))
        assert main(["search", "bread"]) == 0
        assert "bread.md" in capsys.readouterr().out

    def test_a_missing_model_is_an_error_with_a_remedy(self, notes, monkeypatch, error):
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)
        assert "light" in error("build", str(notes))

    @pytest.mark.slow
    def test_an_unknown_embedder_is_one_line(self, notes, error):
        error("build", str(notes), "--embedder", "https://nowhere#model")


class TestSearch:
    def test_hits_are_ranked_with_score_id_and_title(self, corpus, capsys):
        assert main(["search", corpus, "signing keys"]) == 0
        first = capsys.readouterr().out.splitlines()[0]
        assert re.match(r"  1 +0\.\d{4}  keys\.md  Signing keys$", first)

    def test_the_only_corpus_needs_no_name(self, corpus, capsys):
        assert main(["search", "signing keys", "-k", "1"]) == 0
        assert "keys.md" in capsys.readouterr().out

    def test_options_may_stand_between_the_words(self, corpus, capsys):
        assert main(["search", corpus, "-k", "1", "signing keys"]) == 0
        assert "keys.md" in capsys.readouterr().out

    def test_json_is_one_object_per_line(self, corpus, capsys):
        main(["search", corpus, "signing keys", "--format", "json", "-m", "lexical"])
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(line["type"], line["rank"], line["artifact_id"]) for line in lines] == [("hit", 1, "keys.md")]

    def test_a_filter_narrows(self, corpus, capsys):
        main(["search", corpus, "bread", "-m", "dense", "--filter", '{"status": "Final"}'])
        assert capsys.readouterr().out.split()[2] == "keys.md"

    def test_a_hybrid_search_can_blend_scores_instead_of_ranks(self, corpus, capsys):
        main(["search", corpus, "signing keys", "-m", "hybrid", "--fusion", "blend", "--format", "json"])
        first = json.loads(capsys.readouterr().out.splitlines()[0])
        dense, bm25 = first["metadata"]["dense_score"], first["metadata"]["lexical_score"]
        assert first["score"] == pytest.approx(0.1 * dense + 0.9 * bm25 / (bm25 + 8))  # as for the embedder `light`

    def test_a_search_without_hits_prints_a_line(self, corpus, capsys):
        assert main(["search", corpus, "zebra", "-m", "lexical"]) == 0
        assert capsys.readouterr().out == "nothing found\n"

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["notez", "x"], "notes"),
            (["x", "-k", "-1"], "-k: must be a whole number of at least 1"),
            (["x", "-k", "0"], "-k: must be a whole number of at least 1, not '0'"),
            (["x", "--embedder", ""], "--embedder: must name an embedder"),
            (["notes"], "'notes' is a corpus, so the second word is missing: QUERY"),
            (["x", "--filter", "{"], "--filter must be JSON"),
            (["x", "--filter", '{"a": {"$regex": "b"}}'], "$regex"),
            (["a", "b", "c"], "quoted"),
            (["../notes", "x"], "no corpus"),
            (["x", "--fusion", "sum"], "--fusion"),
            (["x", "--rerank", "oracle"], "'oracle'"),
            (["x", "--rerank-text", "title"], "--rerank-text"),
        ],
    )
    def test_mistakes_are_one_line(self, corpus, argv, said, error):
        assert said in error("search", *argv)

    def test_without_a_corpus_the_error_names_the_command_to_build_one(self, error):
        assert "airw build" in error("search", "x")


class TestTraverse:
    def test_each_hit_has_milliseconds_depth_score_and_path_then_the_summary(self, corpus, capsys):
        assert main(["traverse", corpus, "rotate signing keys", "--policy", "eager", "--start", "1"]) == 0
        header, *hits, stopped, left_out = capsys.readouterr().out.splitlines()
        assert header.split() == ["ms", "depth", "score", "path"]
        found = [re.match(r" *\d+\.\d +(\d) +-?\d\.\d{4}  (.*?)  ", line).groups() for line in hits]
        assert found == [("0", "keys.md"), ("1", "keys.md > vault.md"), ("2", "keys.md > vault.md > ops/backup.md")]
        assert stopped.startswith("stopped: exhausted after 3 hits of 3 documents visited, 3 steps, ")
        assert left_out == "left out: nothing"

    def test_the_summary_reports_what_limits_left_out(self, corpus, capsys):
        main(["traverse", corpus, "rotate signing keys", "--policy", "eager", "--start", "1", "--max-depth", "1"])
        assert capsys.readouterr().out.splitlines()[-1] == "left out: max_depth not counted"

    def test_the_documents_behind_limits_are_counted_if_asked_for(self, corpus, capsys):
        main(
            [
                "traverse",
                corpus,
                "rotate signing keys",
                "--policy",
                "eager",
                "--start",
                "1",
                "--max-depth",
                "1",
                "--count-beyond-limits",
            ]
        )
        assert capsys.readouterr().out.splitlines()[-1] == "left out: max_depth 1"

    def test_json_lines_are_hits_then_the_summary(self, corpus, capsys):
        main(["traverse", corpus, "rotate signing keys", "--policy", "eager", "--start", "1", "--format", "json"])
        *hits, summary = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(hit["type"], hit["artifact_id"]) for hit in hits] == [
            ("hit", "keys.md"),
            ("hit", "vault.md"),
            ("hit", "ops/backup.md"),
        ]
        assert hits[2]["metadata"]["walk_path"] == ["keys.md", "vault.md", "ops/backup.md"]
        assert (summary["type"], summary["stop"], summary["truncated"]) == ("summary", "exhausted", False)

    def test_backlinks_can_be_followed(self, corpus, capsys):
        main(["traverse", corpus, "copies at night", "--policy", "eager", "--start", "1", "--direction", "in"])
        assert "ops/backup.md > vault.md > keys.md" in capsys.readouterr().out

    def test_without_a_policy_it_walks_with_the_default_and_takes_its_settings(self, corpus, capsys):
        lines = []
        for words in (["--set", "lead_k=1"], ["--policy", "path-coverage", "--set", "lead_k=1"]):
            main(["traverse", corpus, "rotate signing keys", *words, "--format", "json"])
            lines.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
        given, named = [[line.get("artifact_id") for line in run] for run in lines]
        assert given == named
        assert given[0] == "keys.md"

    def test_the_words_that_a_hit_adds_are_below_it(self, corpus, capsys):
        main(["traverse", corpus, "rotate signing keys"])
        _, first, adds, *_ = capsys.readouterr().out.splitlines()
        assert "  keys.md  " in first
        assert set(adds.split()) <= {"adds:", "rotate", "signing", "keys"}
        assert len(adds.split()) > 1

    def test_the_collapsed_tree_returns_chunks(self, corpus, capsys):
        main(["traverse", corpus, "flour", "--policy", "collapsed-tree", "--format", "json"])
        kinds = {json.loads(line).get("surface_kind") for line in capsys.readouterr().out.splitlines()}
        assert kinds == {"chunk", None}

    @pytest.mark.slow
    def test_a_reader_that_closes_the_pipe_early_is_no_error(self, corpus):
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        pipe = f"'{sys.executable}' -m airw traverse {corpus} 'signing keys' --format json | head -n 1"
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {pipe}"],
            capture_output=True,
            text=True,
            env=environment,
            timeout=60,
            check=False,
        )
        assert json.loads(done.stdout)["type"] == "hit"
        assert done.stderr == ""


class TestCorpora:
    def test_ls_info_and_rm_follow_a_corpus_through_its_life(self, corpus, home, capsys):
        assert main(["ls"]) == 0
        assert capsys.readouterr().out.startswith("notes ")
        assert main(["info", corpus, "--format", "json"]) == 0
        about = json.loads(capsys.readouterr().out)
        assert (about["artifacts"], about["dangling"], about["embedder"]) == (4, 1, "light")
        assert main(["rm", corpus]) == 0
        assert "removed notes" in capsys.readouterr().out
        assert list((home / "corpora").iterdir()) == []
        assert main(["ls"]) == 0
        assert "no corpora yet" in capsys.readouterr().out

    def test_removing_an_unknown_corpus_is_one_line(self, error):
        assert "nothing-here" in error("rm", "nothing-here")

    def test_several_corpora_need_a_choice(self, notes, corpus, capsys, monkeypatch, error):
        main(["build", str(notes), "--embedder", "light", "--name", "other"])
        capsys.readouterr()
        assert "notes, other" in error("search", "bread")
        assert main(["search", "bread", "-c", "other"]) == 0
        monkeypatch.setenv("AIRW_CORPUS", "notes")
        assert main(["search", "bread"]) == 0

    def test_a_damaged_file_is_one_line(self, corpus, home, error):
        (home / "corpora" / "notes.airw").write_bytes(b"not a database, but long enough to look at" * 50)
        error("search", corpus, "bread")


class TestProgram:
    def test_without_a_command_it_prints_help(self, capsys):
        assert main([]) == 0
        assert "examples:" in capsys.readouterr().out

    def test_a_misspelt_flag_is_an_error_without_a_traceback(self, error):
        said = error("search", "x", "--modus", "dense")
        assert "--modus dense; see `airw --help`\n" in said

    @pytest.mark.slow
    def test_a_build_shows_progress_on_a_terminal_only(self, notes):
        """On a terminal stderr shows a moving line; in the pipes of all other tests it does not."""
        command = f"'{sys.executable}' -m airw build '{notes}' --embedder light --name shown"
        spawn = "import pty, sys; sys.exit(pty.spawn(['bash', '-c', sys.argv[1]]))"
        done = subprocess.run(
            [sys.executable, "-c", spawn, command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=True,
        )
        output = done.stdout.decode()
        assert re.search(r"shown: (?:\d of 4|finishing: 4) documents", output)
        assert "shown: 4 added" in output

    @pytest.mark.slow
    def test_an_interrupted_build_leaves_a_corpus_that_the_next_build_completes(self, tmp_path, home):
        """The interrupt comes while the build cannot end: another writer has locked the file."""
        command = ["build", str(tmp_path), "--embedder", "light", "--name", "many"]
        file = home / "corpora" / "many.airw"
        for number in range(300):
            (tmp_path / f"{number:04}.md").write_text(f"# Note {number}\n\nabout {number}\n", encoding="utf-8")
            if number == 99:
                assert run(*command).returncode == 0
        with closing(sqlite3.connect(file, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            building = subprocess.Popen(
                [sys.executable, "-c", HEARS_INTERRUPTS, *command],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            while not _is_building(file):
                assert building.poll() is None, "the build ended before it could be interrupted"
                time.sleep(0.01)
            time.sleep(0.2)  # into reading, embedding or waiting for the other writer
            building.send_signal(signal.SIGINT)
            _, said = building.communicate(timeout=30)
        assert (building.returncode, said.splitlines()[-1]) == (130, "airw: interrupted")
        assert re.search(r"artifacts +100\n", run("info", "many").stdout)
        again = run(*command)
        assert again.returncode == 0, again.stderr
        assert "200 added" in again.stdout
        assert "contains 300 documents" in again.stdout


def _is_building(file: Path) -> bool:
    """Return whether a process has the lock of the builder."""
    import fcntl

    with file.with_name(f"{file.name}-lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
