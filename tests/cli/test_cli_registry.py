"""Commands that manage corpora, as a user sees them.

These are register, build, maintain, coverage, ls, info and rm.
"""

import fcntl
import re
import subprocess
import sys

import pytest

from airw.cli import main
from airw.cli.output import About
from airw.corpora import Maintenance, list_corpora
from tests.support.embedding_server import EmbeddingServer, alone, status

NOTES = {
    "keys.md": "---\ntitle: Signing keys\n---\nRotate the signing keys. See [vault](vault.md) and [gone](gone.md).\n",
    "vault.md": "# Vault\n\nWhere secrets rest.\n",
    "bread.md": "# Bread\n\nFlour, water, salt.\n",
}


def write(folder, texts):
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def notes(tmp_path):
    return write(tmp_path / "notes", NOTES)


@pytest.fixture
def items(tmp_path):
    file = tmp_path / "items.jsonl"
    file.write_text('{"id": "a", "body": "one"}\n{"id": "b", "body": "two"}\n', encoding="utf-8")
    return file


@pytest.fixture
def corpus(notes, output_of):
    output_of("build", notes, "--embedder", "light")
    return "notes"


class TestRegister:
    def test_it_prints_the_registration_and_builds_nothing(self, notes, home, output_of):
        told = output_of("register", "vault", "notes", "--root", notes, "--embedder", "light")
        assert told.splitlines() == [
            f"registered vault: notes root={notes}, embedder light",
            "`airw build vault` builds it; `airw maintain` builds it each time",
        ]
        assert not (home / "corpora").exists()

    def test_a_parameter_is_json_or_plain_text(self, items, output_of):
        options = ["--param", "text_key=body", "--param", 'metadata_keys=["id"]', "--strategy", "Chunked"]
        output_of("register", "logs", "jsonl", "--root", items, *options)
        kept = list_corpora()["logs"]
        assert kept.params == {"path": str(items), "text_key": "body", "metadata_keys": ["id"]}
        assert kept.strategy["name"] == "Chunked"
        spec = '{"name": "Chunked", "params": {"chunk_size": 300, "overlap": 30}}'
        output_of("register", "logs", "jsonl", "--root", items, "--strategy", spec)
        assert list_corpora()["logs"].strategy["params"]["chunk_size"] == 300

    def test_a_number_that_json_lacks_is_text(self, items, output_of):
        output_of("register", "logs", "jsonl", "--root", items, "--param", "text_key=NaN")
        assert list_corpora()["logs"].params["text_key"] == "NaN"

    def test_paths_are_stored_as_absolute_so_that_they_work_from_any_folder(self, notes, output_of, monkeypatch):
        monkeypatch.chdir(notes)
        output_of("register", "vault", "notes", "--root", "../notes")
        assert list_corpora()["vault"].params == {"root": str(notes)}

    @pytest.mark.parametrize(
        ("options", "kept"),
        [
            ((), None),
            (("--reindex-on", "manual"), Maintenance("manual")),
            (("--every-hours", "1.5"), Maintenance("interval", every_hours=1.5)),
            (("--window", "22:00-06:00"), Maintenance(window=("22:00", "06:00"))),
            (
                ("--reindex-on", "interval", "--every-hours", "6", "--window", "01:00-02:00"),
                Maintenance("interval", every_hours=6, window=("01:00", "02:00")),
            ),
        ],
    )
    def test_the_options_of_maintenance_are_stored(self, notes, output_of, options, kept):
        output_of("register", "vault", "notes", "--root", notes, *options)
        assert list_corpora()["vault"].maintenance == kept

    def test_a_window_alone_keeps_the_default_interval_of_the_kind(self, output_of, monkeypatch):
        monkeypatch.setenv("AIRW_FETCHERS", "somewhere")
        output_of("register", "r", "records", "--param", "fetcher=somewhere:rows", "--window", "22:00-06:00")
        assert list_corpora()["r"].maintenance == Maintenance("interval", every_hours=24, window=("22:00", "06:00"))

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["x", "notez", "--root", "."], "known: files, jsonl, notes"),
            (["x", "notes"], "needs --root"),
            (["x", "jsonl"], "needs --root"),
            (["x", "notes", "--root", ".", "--param", "depth=3"], "'depth'"),
            (["x", "notes", "--root", ".", "--param", "root=elsewhere"], "root is given twice"),
            (["x", "notes", "--root", ".", "--param", "pattern"], "KEY=VALUE"),
            (["x", "notes", "--root", ".", "--param", "embedder=light"], "embedder"),
            (["x", "notes", "--root", ".", "--param", "max_bytes=0"], "max_bytes"),
            (["x", "jsonl", "--root", ".", "--param", 'metadata_keys=["a"'], "neither JSON nor plain text"),
            (["x", "notes", "--root", ".", "--pattern", "("], "regular expression"),
            (["x", "notes", "--root", ".", "--strategy", "Nope"], "'Nope'"),
            (["x", "notes", "--root", ".", "--strategy", "{"], "--strategy"),
            (["x", "notes", "--root", ".", "--embedder", "http://nowhere"], "nowhere"),
            (["x", "notes", "--root", ".", "--window", "25:00-"], "--window must be"),
            (["x", "notes", "--root", ".", "--window", "22:00"], "--window must be"),
            (["x", "notes", "--root", ".", "--every-hours", "abc"], "--every-hours"),
            (["x", "notes", "--root", ".", "--every-hours", "0"], "--every-hours"),
            (["x", "notes", "--root", ".", "--every-hours", "nan"], "--every-hours"),
            (["x", "notes", "--root", ".", "--reindex-on", "interval"], "--every-hours"),
            (["x", "notes", "--root", ".", "--reindex-on", "manual", "--every-hours", "3"], "--every-hours"),
            (["x", "notes", "--root", ".", "--reindex-on", "never"], "--reindex-on"),
            (["../x", "notes", "--root", "."], "'../x'"),
            (["x", "records", "--param", "fetcher=os:listdir"], "AIRW_FETCHERS"),
            (["x"], "KIND"),
            (["x", "y", "notes"], ": notes; see `airw --help`"),
        ],
    )
    def test_mistakes_are_one_line_and_create_nothing(self, home, error, argv, said):
        assert said in error("register", *argv)
        assert not home.exists()

    def test_the_help_names_every_kind(self, error, capsys, monkeypatch):
        known = re.search(r"known: (.*)\n", error("register", "x", "nope")).group(1).split(", ")
        monkeypatch.setenv("COLUMNS", "200")
        with pytest.raises(SystemExit):
            main(["register", "--help"])
        names = re.search(r"KIND +the kind of its source: (.*)\n", capsys.readouterr().out).group(1)
        assert re.split(", | or ", names) == known


class TestBuild:
    def test_a_built_path_can_be_built_again_by_its_name(self, notes, corpus, output_of, tmp_path, monkeypatch):
        (notes / "new.md").write_text("# New\n", encoding="utf-8")
        monkeypatch.chdir(tmp_path / "notes")
        assert "1 added, 0 updated, 3 unchanged" in output_of("build", corpus)
        assert list_corpora()[corpus].to_dict() == {
            "name": "notes",
            "kind": "notes",
            "params": {"root": str(notes)},
            "embedder": "light",
            "strategy": None,
            "maintenance": None,
            "store": None,
        }

    def test_a_built_file_of_json_lines_can_be_built_again_by_its_name(self, items, output_of):
        output_of("build", items, "--embedder", "light", "--name", "rows")
        assert "2 unchanged" in output_of("build", "ROWS")

    def test_a_registered_corpus_is_built_with_its_registered_options(self, notes, output_of, objects):
        output_of("register", "v", "notes", "--root", notes, "--embedder", "light", "--strategy", "WholeText")
        assert "3 added" in output_of("build", "v")
        (about,) = objects("info", "v")
        assert (about["artifacts"], about["records"]) == (3, 3)
        assert about["strategy_id"].startswith("WholeText")

    def test_building_its_path_keeps_the_registered_options(self, notes, output_of, objects):
        options = ["--embedder", "light", "--strategy", "WholeText", "--reindex-on", "manual"]
        output_of("register", "notes", "notes", "--root", notes, *options)
        before = list_corpora()["notes"]
        output_of("build", notes)
        assert list_corpora()["notes"] == before
        assert objects("info", "notes")[0]["records"] == 3

    def test_an_embedder_option_is_stored_in_the_registry(self, notes, corpus, output_of, monkeypatch):
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # the embedder `default` needs it
        output_of("register", corpus, "notes", "--root", notes)
        output_of("build", corpus, "--embedder", "light")
        assert list_corpora()[corpus].embedder == "light"
        assert "3 unchanged" in output_of("build", corpus)

    def test_a_folder_here_takes_precedence_over_a_registered_name_and_the_output_names_both(
        self, notes, corpus, output_of, tmp_path, monkeypatch
    ):
        here = write(tmp_path / "elsewhere" / "notes", {"only.md": "# Only\n"})
        monkeypatch.chdir(here.parent)
        told = output_of("build", corpus, "--force")
        assert "1 added, 0 updated, 0 unchanged, 3 removed" in told
        assert told.endswith(f"notes is now registered as notes root={here}; before, it was notes root={notes}\n")

    def test_another_folder_of_the_same_name_is_refused_without_force(self, notes, corpus, output_of, error, tmp_path):
        other = write(tmp_path / "elsewhere" / "notes", {"only.md": "# Only\n"})
        before = output_of("ls")
        for argv in ([other], [other, "--name", corpus]):
            told = error("build", *argv)
            assert f"reads '{other}', but this corpus was built from '{notes}'" in told
            assert "--force" in told
        assert output_of("ls") == before
        assert list_corpora()[corpus].params == {"root": str(notes)}

    def test_documents_that_the_embedder_refuses_or_cuts_are_named(self, notes, output_of, monkeypatch):
        def refuse(handler, texts):
            refused = any("secrets" in text for text in texts)
            (status(413, {"error": "too long"}) if refused else type(handler).send_rows)(handler, texts)

        alone(monkeypatch)
        write(notes, {"long.md": "# Long\n\n" + "日本語の長い文書" * 300})
        with EmbeddingServer(always=refuse) as server:
            told = output_of(
                *("build", notes, "-v", "--embedder", f"{server.url}#all-minilm"),
                code=1,
                err=r"(?s).*left out: vault\.md: its text 1 .*too long.*: long\.md: the embedder reads only about 4.*",
            )
        assert re.search(r"cut: the embedder reads only the beginning of \d texts; --verbose names some", told)
        assert re.match(r"notes: 3 added", told)

    def test_a_mistyped_path_registers_nothing(self, notes, home, error):
        for argv in ([f"{notes}x"], [f"{notes}x", "--name", "n"], ["./nowhere"], ["nowhere/x.jsonl"]):
            assert re.search("does not exist|cannot read", error("build", *argv, "--embedder", "light"))
        assert not home.exists()

    def test_a_path_that_cannot_be_built_registers_nothing(self, notes, home, error, monkeypatch):
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)
        error("build", notes)
        assert list_corpora() == {}

    def test_the_error_about_an_unknown_name_suggests_names_and_a_path(self, corpus, error):
        told = error("build", "notez")
        assert "registered: notes" in told
        assert "'./notez'" in told

    def test_a_corpus_missing_from_the_registry_is_registered_by_building_its_path(
        self, notes, corpus, home, output_of, error
    ):
        (home / "registry.json").unlink()
        assert "not registered; build it from its path" in error("build", corpus)
        assert "3 unchanged" in output_of("build", notes)  # with the embedder that it was built with
        assert "3 unchanged" in output_of("build", corpus)

    def test_a_preset_needs_no_registration(self, output_of, tmp_path, monkeypatch):
        write(tmp_path / ".claude/skills", {"deploy/SKILL.md": "---\nname: deploy\ndescription: Ship it\n---\nDo.\n"})
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert "skills: 1 added" in output_of("build", "skills", "--embedder", "light")
        assert (list_corpora()["skills"].kind, list_corpora()["skills"].embedder) == ("skills", "light")

    def test_a_folder_named_like_a_preset_is_read_as_a_path_with_a_warning(self, output_of, tmp_path, monkeypatch):
        write(tmp_path / "skills", NOTES)
        monkeypatch.chdir(tmp_path)
        output_of("build", "skills", "--embedder", "light", err="airw: 'skills' exists here, .*\n")
        assert list_corpora()["skills"].kind == "notes"

    def test_a_preset_that_was_never_built_is_built_at_its_first_search(self, output_of, tmp_path, monkeypatch):
        write(tmp_path / ".claude/skills", {"deploy/SKILL.md": "---\nname: deploy\ndescription: Ship it\n---\nDo.\n"})
        monkeypatch.chdir(tmp_path)
        output_of("register", "skills", "skills", "--root", ".claude/skills", "--embedder", "light")
        said = r"airw: corpus 'skills' is not built yet; building it now\n"
        assert "deploy" in output_of("search", "skills", "ship", err=said)
        assert "deploy" in output_of("discover", "skills", "ship")

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["nowhere"], "neither an existing path nor"),
            (["no such thing"], "neither an existing path nor"),
            (["items.jsonl"], "neither an existing path nor"),
            (["skills", "--name", "other"], "--name"),
            (["./x/notes.txt"], "notes.txt"),
            (["a\0b"], "neither an existing path nor"),
            (["a", "b"], "unrecognized"),
        ],
    )
    def test_mistakes_are_one_line_and_create_nothing(self, home, error, argv, said):
        assert said in error("build", *argv)
        assert not home.exists()


class TestMaintain:
    @pytest.fixture
    def three_corpora(self, notes, items, tmp_path, output_of):
        """Register a corpus that can be built, one that cannot, and one with manual maintenance."""
        for name, kind, root, *more in (
            ("good", "notes", notes),
            ("bad", "notes", tmp_path / "nowhere"),
            ("rows", "jsonl", items, "--reindex-on", "manual", "--param", "text_key=body"),
        ):
            output_of("register", name, kind, "--root", root, "--embedder", "light", *more)

    def test_a_corpus_that_fails_does_not_stop_the_others_but_changes_the_exit_code(
        self, three_corpora, output_of, error
    ):
        bad, good, rows = output_of("maintain", code=1, err="airw: 1 of 3 corpora failed\n").splitlines()
        assert re.fullmatch(r"bad +failed +.*nowhere.*", bad)
        assert re.fullmatch(r"good +built +3 added, 0 updated, 0 unchanged, 0 removed in \d+\.\d s", good)
        assert re.fullmatch(r"rows +manual +.*", rows)
        assert "nowhere" in error("maintain", "bad")
        assert re.match(r"rows +built +2 added", output_of("maintain", "rows"))

    def test_a_dry_run_lists_due_corpora_and_builds_nothing(self, three_corpora, home, output_of):
        told = output_of("maintain", "--dry-run")
        assert re.findall(r"^(\w+) +(\S+)", told, re.MULTILINE) == [("bad", "due"), ("good", "due"), ("rows", "manual")]
        assert not (home / "corpora").exists()

    def test_json_has_an_object_per_corpus_and_a_summary(self, three_corpora, objects):
        bad, good, rows, summary = objects("maintain", code=1, err="airw: .*\n")
        assert [each["action"] for each in (bad, good, rows)] == ["failed", "built", "manual"]
        assert (good["type"], good["name"], good["report"]["added"]) == ("maintained", "good", 3)
        assert summary == {"type": "summary", "ok": False, "dry_run": False}

    def test_files_that_are_left_out_are_counted(self, notes, corpus, output_of):
        (notes / "odd.md").write_bytes(b"caf\xe9")
        assert "; 1 left out" in output_of("maintain")

    def test_the_time_of_the_last_maintenance_is_stored(self, corpus, output_of, objects):
        assert objects("info", corpus)[0]["maintained"] is None
        output_of("maintain")
        assert objects("info", corpus)[0]["maintained"].endswith("+00:00")
        assert re.search(r"  last +\d{4}-", output_of("info", corpus))

    def test_while_another_maintenance_runs_it_is_refused(self, corpus, home, error):
        with (home / "maintenance.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert "maintenance" in error("maintain")

    def test_without_corpora_it_names_the_command_to_register_one(self, home, output_of):
        assert "airw register" in output_of("maintain")
        assert not home.exists()

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["nowhere"], "'nowhere'"),
            (["../x"], "../x"),
            (["a", "b"], ": b; see `airw --help`"),
            (["a", "-c", "b"], "one corpus"),
        ],
    )
    def test_mistakes_are_one_line_and_create_nothing(self, home, error, argv, said):
        assert said in error("maintain", *argv)
        assert not home.exists()


class TestCoverage:
    def test_an_up_to_date_corpus_is_fully_covered(self, corpus, output_of):
        told = output_of("coverage", corpus)
        assert told.startswith("notes: 3 of 3 documents indexed (100.0%)\n")
        assert re.search(r"^missing +0 ", told, re.MULTILINE)

    def test_missing_outdated_and_removed_documents_are_counted_and_listed(self, notes, corpus, output_of):
        write(notes, {"new.md": "# New\n", "bread.md": "# Bread\n\nRye.\n", "draft.txt": "left out"})
        (notes / "vault.md").unlink()
        told = output_of("coverage", code=1)
        assert re.findall(r"^(missing|outdated|gone) +(\d+)", told, re.MULTILINE) == [
            ("missing", "1"),
            ("outdated", "1"),
            ("gone", "1"),
        ]
        assert "new.md" not in told
        listed = output_of("coverage", "-v", code=1)
        assert re.findall(r"^ {4}(\S+)$", listed, re.MULTILINE) == ["new.md", "bread.md", "vault.md", "draft.txt"]

    def test_an_unreadable_file_is_counted_as_a_problem(self, notes, corpus, output_of):
        (notes / "odd.md").write_bytes(b"caf\xe9")
        assert re.search(r"^problems +1 ", output_of("coverage", code=1), re.MULTILINE)

    def test_json_is_one_object(self, notes, corpus, objects):
        write(notes, {"new.md": "# New\n"})
        (told,) = objects("coverage", corpus, code=1)
        assert (told["type"], told["name"], told["missing"]) == ("coverage", "notes", ["new.md"])
        assert told["ratio"] == pytest.approx(3 / 4)

    def test_before_a_build_all_documents_are_missing_and_nothing_is_created(self, notes, home, output_of):
        output_of("register", "v", "notes", "--root", notes, "--embedder", "light")
        assert output_of("coverage", code=1).startswith("v: 0 of 3 documents indexed (0.0%)\n")
        assert not (home / "corpora").exists()

    def test_a_build_makes_coverage_complete(self, notes, corpus, output_of):
        write(notes, {"new.md": "# New\n"})
        output_of("coverage", code=1)
        output_of("build", corpus)
        output_of("coverage")

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            ([], "no corpora yet"),
            (["nowhere"], "'nowhere'"),
            (["a", "b"], ": b; see `airw --help`"),
            (["a", "-c", "b"], "one corpus"),
        ],
    )
    def test_mistakes_are_one_line_and_create_nothing(self, home, error, argv, said):
        assert said in error("coverage", *argv)
        assert not home.exists()


class TestInfo:
    def test_it_prints_sections(self, notes, corpus, home, output_of):
        output_of("register", corpus, "notes", "--root", notes, "--embedder", "light", "--window", "22:00-06:00")
        told = output_of("info", corpus)
        assert re.findall(r"^\S.*", told, re.MULTILINE) == [
            "notes",
            "store",
            "contains",
            "links",
            "built with",
            "registered as",
            "maintained",
        ]
        rows = dict(re.findall(r"^  (\S+) +(.*)$", told, re.MULTILINE))
        assert (rows["artifacts"], rows["resolved"], rows["dangling"]) == ("3", "1", "1")
        assert (rows["path"], rows["root"]) == (str(home / "corpora" / "notes.airw"), str(notes))
        assert (rows["when"], rows["last"]) == ("each time, from 22:00 to 06:00", "never")
        assert max(map(len, told.splitlines())) < 120 + len(str(home))

    def test_its_keys_are_the_same_for_every_corpus(self, notes, corpus, home, output_of, objects):
        output_of("register", "later", "notes", "--root", notes)
        (whole,), (bare,) = objects("info", corpus), objects("info", "later")
        assert list(bare) == list(whole)
        assert (bare["bytes"], bare["artifacts"], bare["embedder_id"]) == (None, None, None)
        assert bare["definition"]["params"] == whole["definition"]["params"] == {"root": str(notes)}
        assert "not built yet" in output_of("info", "later")
        (home / "registry.json").unlink()
        assert objects("info", corpus)[0]["definition"] is None

    def test_floors_are_marked_current_only_for_the_embedder_of_the_corpus(self, corpus, tmp_path, output_of, objects):
        cases = tmp_path / "cases.jsonl"
        cases.write_text('{"query": "signing keys", "gold": "keys.md"}\n{"query": "zebra"}\n', encoding="utf-8")
        output_of("calibrate", cases, "-m", "dense", "--save")
        (floor,) = objects("info", corpus)[0]["floors"].values()
        assert (floor["mode"], floor["current"]) == ("dense", True)
        assert re.search(
            rf"^  dense +{floor['min_score']:.4f} of the evidence$", output_of("info", corpus), re.MULTILINE
        )
        old = About("n", tmp_path, config={"embedder_id": "new"}, calibrations={"dense": {"embedder_id": "old"}})
        assert old.floors()["dense"]["current"] is False

    def test_two_corpora_are_refused(self, corpus, error):
        assert "one corpus" in error("info", corpus, "-c", "other")


class TestListAndRemove:
    def test_a_registered_corpus_that_is_not_built_is_listed_and_can_be_removed(self, notes, corpus, home, output_of):
        output_of("register", "later", "notes", "--root", notes)
        later, first = output_of("ls").splitlines()
        assert later == f"later                 not built yet: notes root={notes}, embedder default"
        assert first.startswith("notes ")
        assert output_of("rm", "Later") == "removed later: its registration\n"
        assert list(list_corpora()) == ["notes"]

    def test_a_damaged_corpus_is_reported_and_the_others_are_listed(self, corpus, home, output_of):
        (home / "corpora" / "broken.airw").write_text("no corpus " * 100)
        (line,) = output_of("ls", code=1, err=r"airw: broken: [^\n]*\n").splitlines()
        assert line.startswith("notes ")

    def test_removing_a_corpus_removes_file_and_registration(self, corpus, home, output_of, error):
        file = home / "corpora" / "notes.airw"
        assert output_of("rm", corpus) == f"removed notes: {file} and its registration\n"
        assert (list((home / "corpora").iterdir()), list_corpora()) == ([], {})
        error("rm", corpus)

    def test_a_corpus_that_was_never_registered_can_be_removed(self, corpus, home, output_of):
        (home / "registry.json").unlink()
        assert output_of("rm", corpus) == f"removed notes: {home / 'corpora' / 'notes.airw'}\n"


class TestProgram:
    def test_a_damaged_registry_is_one_line(self, corpus, home, error):
        (home / "registry.json").write_text("{", encoding="utf-8")
        for command in (["ls"], ["build", corpus], ["maintain"], ["coverage"], ["info", corpus]):
            assert "registry.json" in error(*command)

    @pytest.mark.slow
    def test_a_corpus_lives_from_registration_to_removal(self, notes, home):
        """The commands run in processes that share only the home folder."""

        def run(*argv):
            command = [sys.executable, "-m", "airw", *map(str, argv)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=notes)
            return done.returncode, done.stdout, done.stderr

        code, told, failed = run("register", "v", "notes", "--root", ".", "--embedder", "light")
        assert (code, failed) == (0, "")
        assert f"root={notes}" in told
        assert run("coverage")[0] == 1
        code, told, failed = run("maintain")
        assert (code, failed) == (0, "")
        assert re.match(r"v +built +3 added", told)
        code, told, failed = run("build", "w")
        assert (code, told, failed.count("\n")) == (2, "", 1)
        assert run("rm", "v")[0] == 0
        assert list((home / "corpora").iterdir()) == []


class TestNames:
    """A message about an unknown corpus names all corpora, as long as they are few."""

    @pytest.fixture
    def many(self, home):
        (home / "corpora").mkdir(parents=True)
        for number in range(40):
            (home / "corpora" / f"corpus{number:02}.airw").touch()

    def test_all_are_named_the_similar_ones_first(self, home, error):
        (home / "corpora").mkdir(parents=True)
        for name in ("eips", "my", "site1", "site2", "site12"):
            (home / "corpora" / f"{name}.airw").touch()
        assert "known: site2, site1, site12, eips, my;" in error("search", "site", "x")
        assert "known: site2, site1, site12, eips, my;" in error("maintain", "site")
        assert "no corpus named; choose one of eips, my, site1, site12, site2 and put its name first" in error(
            "search", "x"
        )

    def test_very_many_are_counted(self, many, error):
        told = error("search", "corpus7", "x")
        assert told.count("corpus") < 35
        assert " and 10 more" in told
