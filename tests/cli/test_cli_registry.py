"""The commands that keep corpora, as a user meets them: register, build, maintain, coverage, ls, info, rm."""

import fcntl
import re
import subprocess
import sys

import pytest

from airw.cli import main
from airw.cli.output import About
from airw.corpora import Maintenance, list_corpora

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
def built(notes, printed):
    printed("build", notes, "--embedder", "light")
    return "notes"


class TestRegister:
    def test_it_says_what_was_registered_and_builds_nothing(self, notes, home, printed):
        told = printed("register", "vault", "notes", "--root", notes, "--embedder", "light")
        assert told.splitlines() == [
            f"registered vault: notes root={notes}, embedder light",
            "`airw build vault` builds it; `airw maintain` builds it each time",
        ]
        assert not (home / "corpora").exists()

    def test_what_a_kind_takes_is_json_or_plain_text(self, items, printed):
        options = ["--param", "text_key=body", "--param", 'metadata_keys=["id"]', "--strategy", "Chunked"]
        printed("register", "logs", "jsonl", "--root", items, *options)
        kept = list_corpora()["logs"]
        assert kept.params == {"path": str(items), "text_key": "body", "metadata_keys": ["id"]}
        assert kept.strategy["name"] == "Chunked"
        spec = '{"name": "Chunked", "params": {"chunk_size": 300, "overlap": 30}}'
        printed("register", "logs", "jsonl", "--root", items, "--strategy", spec)
        assert list_corpora()["logs"].strategy["params"]["chunk_size"] == 300

    def test_what_is_a_number_elsewhere_only_is_text(self, items, printed):
        printed("register", "logs", "jsonl", "--root", items, "--param", "text_key=NaN")
        assert list_corpora()["logs"].params["text_key"] == "NaN"

    def test_paths_are_kept_whole_so_that_any_folder_will_do(self, notes, printed, monkeypatch):
        monkeypatch.chdir(notes)
        printed("register", "vault", "notes", "--root", "../notes")
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
    def test_when_it_is_maintained_is_kept(self, notes, printed, options, kept):
        printed("register", "vault", "notes", "--root", notes, *options)
        assert list_corpora()["vault"].maintenance == kept

    def test_a_window_alone_leaves_the_interval_of_the_kind(self, printed, monkeypatch):
        monkeypatch.setenv("AIRW_FETCHERS", "somewhere")
        printed("register", "r", "records", "--param", "fetcher=somewhere:rows", "--window", "22:00-06:00")
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
            (["x", "y", "notes"], "unrecognized arguments: notes"),
        ],
    )
    def test_mistakes_are_one_line_and_leave_nothing_behind(self, home, error, argv, said):
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
    def test_a_path_is_known_by_its_name_from_then_on(self, notes, built, printed, tmp_path, monkeypatch):
        (notes / "new.md").write_text("# New\n", encoding="utf-8")
        monkeypatch.chdir(tmp_path / "notes")
        assert "1 added, 0 updated, 3 unchanged" in printed("build", built)
        assert list_corpora()[built].to_dict() == {
            "name": "notes",
            "kind": "notes",
            "params": {"root": str(notes)},
            "embedder": "light",
            "strategy": None,
            "maintenance": None,
        }

    def test_a_file_of_json_lines_is_known_by_its_name_too(self, items, printed):
        printed("build", items, "--embedder", "light", "--name", "rows")
        assert "2 unchanged" in printed("build", "ROWS")

    def test_a_registered_corpus_is_built_as_it_was_registered(self, notes, printed, objects):
        printed("register", "v", "notes", "--root", notes, "--embedder", "light", "--strategy", "WholeText")
        assert "3 added" in printed("build", "v")
        (about,) = objects("info", "v")
        assert (about["artifacts"], about["records"]) == (3, 3)
        assert about["strategy_id"].startswith("WholeText")

    def test_its_path_keeps_what_was_registered_of_it(self, notes, printed, objects):
        options = ["--embedder", "light", "--strategy", "WholeText", "--reindex-on", "manual"]
        printed("register", "notes", "notes", "--root", notes, *options)
        before = list_corpora()["notes"]
        printed("build", notes)
        assert list_corpora()["notes"] == before
        assert objects("info", "notes")[0]["records"] == 3

    def test_an_embedder_that_is_named_is_remembered(self, notes, built, printed, monkeypatch):
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # what default would need
        printed("register", built, "notes", "--root", notes)
        printed("build", built, "--embedder", "light")
        assert list_corpora()[built].embedder == "light"
        assert "3 unchanged" in printed("build", built)

    def test_a_folder_here_wins_over_a_registered_name_and_says_what_it_replaced(
        self, notes, built, printed, tmp_path, monkeypatch
    ):
        here = write(tmp_path / "elsewhere" / "notes", {"only.md": "# Only\n"})
        monkeypatch.chdir(here.parent)
        told = printed("build", built)
        assert "1 added, 0 updated, 0 unchanged, 3 removed" in told
        assert told.endswith(f"notes is now registered as notes root={here}; before, it was notes root={notes}\n")

    def test_a_mistyped_path_registers_nothing(self, notes, home, error):
        for argv in ([f"{notes}x"], [f"{notes}x", "--name", "n"], ["./nowhere"], ["nowhere/x.jsonl"]):
            assert re.search("does not exist|cannot read", error("build", *argv, "--embedder", "light"))
        assert not home.exists()

    def test_a_path_that_cannot_be_built_registers_nothing(self, notes, home, error, monkeypatch):
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)
        error("build", notes)
        assert list_corpora() == {}

    def test_a_name_that_is_not_registered_is_told_from_a_path(self, built, error):
        told = error("build", "notez")
        assert "registered: notes" in told
        assert "'./notez'" in told

    def test_a_corpus_from_before_there_was_a_registry_is_registered_by_its_path(
        self, notes, built, home, printed, error
    ):
        (home / "registry.json").unlink()
        assert "not registered; build it from its path" in error("build", built)
        assert "3 unchanged" in printed("build", notes)  # with the embedder that it was built with
        assert "3 unchanged" in printed("build", built)

    def test_a_preset_needs_no_registration(self, printed, tmp_path, monkeypatch):
        write(tmp_path / ".claude/skills", {"deploy/SKILL.md": "---\nname: deploy\ndescription: Ship it\n---\nDo.\n"})
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HOME", str(tmp_path))
        assert "skills: 1 added" in printed("build", "skills", "--embedder", "light")
        assert (list_corpora()["skills"].kind, list_corpora()["skills"].embedder) == ("skills", "light")

    def test_a_folder_named_like_a_preset_is_read_as_a_path_and_says_so(self, printed, tmp_path, monkeypatch):
        write(tmp_path / "skills", NOTES)
        monkeypatch.chdir(tmp_path)
        printed("build", "skills", "--embedder", "light", err="airw: 'skills' exists here, .*\n")
        assert list_corpora()["skills"].kind == "notes"

    def test_a_preset_that_was_never_built_is_built_when_it_is_first_asked(self, printed, tmp_path, monkeypatch):
        write(tmp_path / ".claude/skills", {"deploy/SKILL.md": "---\nname: deploy\ndescription: Ship it\n---\nDo.\n"})
        monkeypatch.chdir(tmp_path)
        printed("register", "skills", "skills", "--root", ".claude/skills", "--embedder", "light")
        said = r"airw: corpus 'skills' is not built yet; building it now\n"
        assert "deploy" in printed("search", "skills", "ship", err=said)
        assert "deploy" in printed("discover", "skills", "ship")

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
    def test_mistakes_are_one_line_and_leave_nothing_behind(self, home, error, argv, said):
        assert said in error("build", *argv)
        assert not home.exists()


class TestMaintain:
    @pytest.fixture
    def three(self, notes, items, tmp_path, printed):
        """One that can be built, one that cannot, and one that waits to be named."""
        for name, kind, root, *more in (
            ("good", "notes", notes),
            ("bad", "notes", tmp_path / "nowhere"),
            ("rows", "jsonl", items, "--reindex-on", "manual", "--param", "text_key=body"),
        ):
            printed("register", name, kind, "--root", root, "--embedder", "light", *more)

    def test_one_that_fails_does_not_stop_the_others_and_is_told_by_the_exit_code(self, three, printed, error):
        bad, good, rows = printed("maintain", code=1, err="airw: 1 of 3 corpora failed\n").splitlines()
        assert re.fullmatch(r"bad +failed +.*nowhere.*", bad)
        assert re.fullmatch(r"good +built +3 added, 0 updated, 0 unchanged, 0 removed in \d+\.\d s", good)
        assert re.fullmatch(r"rows +manual +.*", rows)
        assert "nowhere" in error("maintain", "bad")
        assert re.match(r"rows +built +2 added", printed("maintain", "rows"))

    def test_a_dry_run_says_what_is_due_and_makes_nothing(self, three, home, printed):
        told = printed("maintain", "--dry-run")
        assert re.findall(r"^(\w+) +(\S+)", told, re.MULTILINE) == [("bad", "due"), ("good", "due"), ("rows", "manual")]
        assert not (home / "corpora").exists()

    def test_json_tells_of_each_corpus_and_then_how_it_went(self, three, objects):
        bad, good, rows, summary = objects("maintain", code=1, err="airw: .*\n")
        assert [each["action"] for each in (bad, good, rows)] == ["failed", "built", "manual"]
        assert (good["type"], good["name"], good["report"]["added"]) == ("maintained", "good", 3)
        assert summary == {"type": "summary", "ok": False, "dry_run": False}

    def test_what_is_left_out_is_counted(self, notes, built, printed):
        (notes / "odd.md").write_bytes(b"caf\xe9")
        assert "; 1 left out" in printed("maintain")

    def test_when_it_was_is_kept(self, built, printed, objects):
        assert objects("info", built)[0]["maintained"] is None
        printed("maintain")
        assert objects("info", built)[0]["maintained"].endswith("+00:00")
        assert re.search(r"  last +\d{4}-", printed("info", built))

    def test_while_another_runs_it_is_refused(self, built, home, error):
        with (home / "maintenance.lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            assert "maintenance" in error("maintain")

    def test_without_corpora_it_says_how_to_register_one(self, home, printed):
        assert "airw register" in printed("maintain")
        assert not home.exists()

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["nowhere"], "'nowhere'"),
            (["../x"], "../x"),
            (["a", "b"], "unrecognized arguments: b"),
            (["a", "-c", "b"], "one corpus"),
        ],
    )
    def test_mistakes_are_one_line_and_leave_nothing_behind(self, home, error, argv, said):
        assert said in error("maintain", *argv)
        assert not home.exists()


class TestCoverage:
    def test_all_that_is_there_is_covered(self, built, printed):
        told = printed("coverage", built)
        assert told.startswith("notes: 3 of 3 documents indexed (100.0%)\n")
        assert re.search(r"^missing +0 ", told, re.MULTILINE)

    def test_what_is_missing_outdated_and_gone_is_counted_and_listed(self, notes, built, printed):
        write(notes, {"new.md": "# New\n", "bread.md": "# Bread\n\nRye.\n", "draft.txt": "left out"})
        (notes / "vault.md").unlink()
        told = printed("coverage", code=1)
        assert re.findall(r"^(missing|outdated|gone) +(\d+)", told, re.MULTILINE) == [
            ("missing", "1"),
            ("outdated", "1"),
            ("gone", "1"),
        ]
        assert "new.md" not in told
        listed = printed("coverage", "-v", code=1)
        assert re.findall(r"^ {4}(\S+)$", listed, re.MULTILINE) == ["new.md", "bread.md", "vault.md", "draft.txt"]

    def test_what_cannot_be_read_is_missing_too(self, notes, built, printed):
        (notes / "odd.md").write_bytes(b"caf\xe9")
        assert re.search(r"^problems +1 ", printed("coverage", code=1), re.MULTILINE)

    def test_json_is_one_object(self, notes, built, objects):
        write(notes, {"new.md": "# New\n"})
        (told,) = objects("coverage", built, code=1)
        assert (told["type"], told["name"], told["missing"]) == ("coverage", "notes", ["new.md"])
        assert told["ratio"] == pytest.approx(3 / 4)

    def test_before_a_build_all_is_missing_and_nothing_is_made(self, notes, home, printed):
        printed("register", "v", "notes", "--root", notes, "--embedder", "light")
        assert printed("coverage", code=1).startswith("v: 0 of 3 documents indexed (0.0%)\n")
        assert not (home / "corpora").exists()

    def test_it_is_put_right_by_a_build(self, notes, built, printed):
        write(notes, {"new.md": "# New\n"})
        printed("coverage", code=1)
        printed("build", built)
        printed("coverage")

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            ([], "no corpora yet"),
            (["nowhere"], "'nowhere'"),
            (["a", "b"], "unrecognized arguments: b"),
            (["a", "-c", "b"], "one corpus"),
        ],
    )
    def test_mistakes_are_one_line_and_leave_nothing_behind(self, home, error, argv, said):
        assert said in error("coverage", *argv)
        assert not home.exists()


class TestInfo:
    def test_it_tells_in_sections_what_is_known(self, notes, built, home, printed):
        printed("register", built, "notes", "--root", notes, "--embedder", "light", "--window", "22:00-06:00")
        told = printed("info", built)
        assert re.findall(r"^\S.*", told, re.MULTILINE) == [
            "notes",
            "file",
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

    def test_its_keys_are_the_same_for_every_corpus(self, notes, built, home, printed, objects):
        printed("register", "later", "notes", "--root", notes)
        (whole,), (bare,) = objects("info", built), objects("info", "later")
        assert list(bare) == list(whole)
        assert (bare["bytes"], bare["artifacts"], bare["embedder_id"]) == (None, None, None)
        assert bare["definition"]["params"] == whole["definition"]["params"] == {"root": str(notes)}
        assert "not built yet" in printed("info", "later")
        (home / "registry.json").unlink()
        assert objects("info", built)[0]["definition"] is None

    def test_floors_are_told_with_the_embedder_that_they_hold_for(self, built, tmp_path, printed, objects):
        cases = tmp_path / "cases.jsonl"
        cases.write_text('{"query": "signing keys", "gold": "keys.md"}\n{"query": "zebra"}\n', encoding="utf-8")
        printed("calibrate", cases, "-m", "dense", "--save")
        (floor,) = objects("info", built)[0]["floors"].values()
        assert (floor["mode"], floor["current"]) == ("dense", True)
        assert re.search(rf"^  dense +{floor['min_score']:.4f}$", printed("info", built), re.MULTILINE)
        old = About("n", tmp_path, config={"embedder_id": "new"}, calibrations={"dense": {"embedder_id": "old"}})
        assert old.floors()["dense"]["current"] is False

    def test_two_corpora_are_refused(self, built, error):
        assert "one corpus" in error("info", built, "-c", "other")


class TestListAndRemove:
    def test_what_is_registered_and_not_built_is_listed_and_can_be_removed(self, notes, built, home, printed):
        printed("register", "later", "notes", "--root", notes)
        later, first = printed("ls").splitlines()
        assert later == f"later                 not built yet: notes root={notes}, embedder default"
        assert first.startswith("notes ")
        assert printed("rm", "Later") == "removed later: its registration\n"
        assert list(list_corpora()) == ["notes"]

    def test_a_damaged_corpus_is_told_of_and_the_others_are_listed(self, built, home, printed):
        (home / "corpora" / "broken.airw").write_text("no corpus " * 100)
        (line,) = printed("ls", code=1, err=r"airw: broken: [^\n]*\n").splitlines()
        assert line.startswith("notes ")

    def test_file_and_registration_go_together(self, built, home, printed, error):
        file = home / "corpora" / "notes.airw"
        assert printed("rm", built) == f"removed notes: {file} and its registration\n"
        assert (list((home / "corpora").iterdir()), list_corpora()) == ([], {})
        error("rm", built)

    def test_a_corpus_that_was_never_registered_goes_too(self, built, home, printed):
        (home / "registry.json").unlink()
        assert printed("rm", built) == f"removed notes: {home / 'corpora' / 'notes.airw'}\n"


class TestProgram:
    def test_a_damaged_registry_is_one_line(self, built, home, error):
        (home / "registry.json").write_text("{", encoding="utf-8")
        for command in (["ls"], ["build", built], ["maintain"], ["coverage"], ["info", built]):
            assert "registry.json" in error(*command)

    @pytest.mark.slow
    def test_a_corpus_lives_from_registration_to_removal(self, notes, home):
        """Real processes, which share nothing but the home folder."""

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
