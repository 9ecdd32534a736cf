"""Commands that find documents, as a user sees them: discover, expand, calibrate."""

import json
import re
import shutil

import pytest

from airw.cli import main
from airw.discovery import REASONS

NOTES = {
    "keys.md": "---\ntitle: Signing keys\nstatus: Final\n---\nRotate the signing keys every month.\n",
    "bread.md": "# Bread\n\nFlour, water, salt.\n\n## Baking\n\nBake it for an hour.\n",
    "ops/backup.md": "# Backup\n\nCopies at night.\n",
}
OTHERS = {"vault.md": "# Vault\n\nKeys for signing lie here at night.\n", "roses.md": "# Roses\n\nPrune in spring.\n"}
CASES = [
    {"query": "rotate signing keys", "gold": "keys.md"},
    {"query": "flour water salt", "gold": ["bread.md"]},
    {"query": "a month in Rome", "gold": []},
    {"query": "zebra"},
    {"query": "night", "gold": "a note that is gone"},
]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Build two corpora; return the folder that contains them and their notes."""
    folder = tmp_path_factory.mktemp("library")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRW_HOME", str(folder))
        for name, notes in (("notes", NOTES), ("others", OTHERS)):
            for file, text in notes.items():
                (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / name / file).write_text(text, encoding="utf-8")
            assert main(["build", str(folder / name), "--embedder", "light"]) == 0
    return folder


@pytest.fixture
def notes(library, home):
    (home / "corpora").mkdir(parents=True, exist_ok=True)
    shutil.copy(library / "corpora" / "notes.airw", home / "corpora")
    return "notes"


@pytest.fixture
def others(library, home):
    (home / "corpora").mkdir(parents=True, exist_ok=True)
    shutil.copy(library / "corpora" / "others.airw", home / "corpora")
    return "others"


@pytest.fixture
def cases(tmp_path):
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(f"{json.dumps(case)}\n" for case in CASES), encoding="utf-8")
    return str(file)


@pytest.fixture
def corrupt_corpus(others, home):
    (home / "corpora" / "others.airw").write_bytes(b"not a database, but long enough to look at" * 50)
    return others


@pytest.fixture
def lines(output_of):
    """Return a function that runs a command, checks its exit code and returns its lines."""
    return lambda *argv, **options: output_of(*argv, **options).splitlines()


def test_operators_are_read_unless_plain_says_not_to(notes, lines):
    def list_names(*argv):
        return {word for line in lines(*argv) for word in line.split() if word.endswith(".md")}

    assert list_names("search", notes, 'mont* "signing keys"') == {"keys.md"}
    assert list_names("search", notes, 'mont* "signing keys"', "--plain", "-m", "lexical") == {"keys.md"}
    assert list_names("search", notes, "hour night -copies", "-m", "lexical") == {"bread.md"}
    assert list_names("search", notes, "hour night -copies", "-m", "lexical", "--plain") == {
        "bread.md",
        "ops/backup.md",
    }
    assert list_names("discover", notes, "hour night -copies") == {"bread.md"}
    assert list_names("traverse", notes, "hour night -copies", "--policy", "eager", "--max-depth", "0") >= {"bread.md"}
    assert "ops/backup.md" not in list_names("traverse", notes, "hour -copies", "--policy", "eager")


class TestDiscover:
    def test_prints_the_few_documents_that_answer(self, notes, lines):
        line, snippet, reason = lines("discover", notes, "signing keys")
        assert re.fullmatch(r"  1 +0\.\d{4}  keys\.md  Signing keys", line)
        assert snippet == "     Rotate the signing keys every month."
        assert reason == "chosen 1 of 3: it is the only document found (single)"

    def test_without_an_answer_it_prints_the_reason(self, notes, lines):
        assert lines("discover", "zebra") == [
            f"no document answers the query: {REASONS['abstain:no_evidence']} (abstain:no_evidence)"
        ]
        low = lines("discover", "signing keys", "-m", "dense", "--min-score", "0.99")
        assert re.fullmatch(
            r"no document answers the query: even the best score is below the floor \(abstain:below_floor\); "
            r"best score 0\.\d{4}, floor 0\.9900",
            *low,
        )

    def test_reports_on_each_of_several_corpora_then_prints_the_fused_hits(self, notes, others, lines):
        *answers, first, _, second, _, reason = lines(
            "discover", notes, others, "signing keys", "--rel", "0", "--max-k", "2"
        )
        told = sorted(re.fullmatch(r"(\w+) +ok +(\d) hits  \d+ ms", line).groups() for line in answers)
        assert told == [("notes", "3"), ("others", "2")]
        assert first.split()[2:] == ["notes", "keys.md", "Signing", "keys"]
        assert second.split()[2:] == ["others", "vault.md", "Vault"]
        assert reason.startswith("chosen 2 of ")

    @pytest.mark.slow
    def test_takes_corpora_as_words_and_as_options(self, notes, others, objects, monkeypatch):
        def sources_of(*argv):
            return sorted(each["source"] for each in objects("discover", *argv) if each["type"] == "progress")

        assert sources_of("-c", notes, "-c", others, "night") == ["notes", "others"]
        assert sources_of(notes, "-k", "2", "-c", others, "night") == ["notes", "others"]
        monkeypatch.setenv("AIRW_CORPUS", notes)
        assert sources_of("night") == ["notes"]

    def test_json_has_each_answer_then_the_hits_and_a_summary(self, notes, others, objects):
        told = objects("discover", notes, others, "signing keys", "--rel", "0")
        assert [each["type"] for each in told] == ["progress", "progress", "hit", "hit", "summary"]
        early, late = told[:2]
        assert (early["pending"], late["pending"]) == ([late["source"]], [])
        assert {hit["artifact_id"] for hit in early["ranking"]} <= {hit["artifact_id"] for hit in early["hits"]}
        assert early["hits"][0].keys() == {"artifact_id", "source", "score"}  # texts come once, with the hits
        assert early["report"]["status"] == "ok"
        assert [(hit["rank"], hit["source"], hit["artifact_id"]) for hit in told[2:4]] == [
            (1, "notes", "keys.md"),
            (2, "others", "vault.md"),
        ]
        summary = told[-1]
        assert (summary["query"], summary["abstained"], summary["n_selected"]) == ("signing keys", False, 2)
        assert summary["signals"]["per_source"]["others"]["n_retrieved"] == 2
        assert "results" not in summary

    def test_abstains_in_json_with_a_reason(self, notes, objects):
        progress, summary = objects("discover", "zebra")
        assert progress["report"]["reason"] == "no_evidence"
        assert (summary["abstained"], summary["reason"], summary["n_selected"]) == (True, "abstain:no_evidence", 0)

    def test_one_corpus_that_fails_does_not_stop_the_others(self, notes, corrupt_corpus, capsys):
        assert main(["discover", notes, corrupt_corpus, "signing keys"]) == 1
        told = capsys.readouterr()
        assert re.search(r"^others +failed", told.out, re.MULTILINE)
        assert "keys.md" in told.out
        assert told.err.startswith("airw: 'others' did not answer: '")
        assert told.err.count("\n") == 1

    def test_if_all_corpora_fail_it_is_an_error(self, corrupt_corpus, notes, capsys):
        assert "others.airw" in self.failure(capsys, "discover", corrupt_corpus, "signing keys")
        late = self.failure(capsys, "discover", notes, corrupt_corpus, "signing keys", "--source-timeout", "0")
        assert "no source answered" in late
        assert "no source answered" in self.failure(capsys, "discover", notes, "signing keys", "--timeout", "0")

    @staticmethod
    def failure(capsys, *argv):
        assert main(argv) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        return told

    def test_discloses_passages_and_bodies_below_a_folder(self, notes, library, lines):
        sources_of = ("discover", "bake an hour", "-m", "lexical", "--expand", "1", "--disclose", "body")
        assert lines(*sources_of, "--root", str(library / "notes"))[1:] == [
            "     passage:",
            "       # Bread",
            "",
            "       Flour, water, salt.",
            "",
            "       ## Baking",
            "",
            "       Bake it for an hour.",
            "     body:",
            "       # Bread",
            "",
            "       Flour, water, salt.",
            "",
            "       ## Baking",
            "",
            "       Bake it for an hour.",
            "chosen 1 of 1: it is the only document found (single)",
        ]
        assert lines(*sources_of, "--root", str(library / "notes" / "ops"))[-3:-1] == [
            "     note:",
            "       pointer_outside_roots",
        ]

    def test_bodies_come_from_the_folder_that_the_corpus_is_registered_with(self, notes, library, home, lines):
        shutil.copy(library / "registry.json", home)
        told = lines("discover", notes, "bake an hour", "-m", "lexical", "--disclose", "body")
        assert "     body:" in told
        assert "       Bake it for an hour." in told

    def test_options_of_search_and_selection_take_effect(self, notes, objects):
        def ids_of(*argv):
            return [
                each["artifact_id"] for each in objects("discover", "copies of flour", *argv) if each["type"] == "hit"
            ]

        assert ids_of("--strategy", "top_k", "--max-k", "2", "-m", "dense") == ["bread.md", "ops/backup.md"]
        assert ids_of("--filter", '{"status": "Final"}', "--strategy", "top_k", "-m", "dense") == []
        assert ids_of("--rel", "0", "--max-k", "5", "-k", "2", "-m", "dense") == ["bread.md", "ops/backup.md"]

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["notez", "x"], "known: notes"),
            (["x", "-m", "deep"], "--mode"),
            (["x", "-k", "-1"], "-k: must be"),
            (["notes"], "the second word is missing"),
            (["x", "--rel", "2"], "--rel must be"),
            (["x", "--strategy", "best"], "--strategy"),
            (["x", "--filter", "{"], "--filter must be JSON"),
            (["x", "--min-score", "low"], "--min-score: must be a number, auto or none, not 'low'"),
            (["x", "--min-score", "nan"], "--min-score: must be a number, auto or none, not 'nan'"),
            (["x", "--disclose", "body"], "--root FOLDER"),
            (["x", "--expand", "-1"], "--expand must be"),
            (["x", "--rerank", "oracle"], "'oracle'"),
            (["x", "--timeout", "soon"], "--timeout"),
            (["notes", "notes", "x"], "'notes'"),
        ],
    )
    def test_mistakes_are_one_line(self, notes, error, argv, said):
        assert said in error("discover", *argv)

    def test_one_number_as_floor_is_refused_for_several_corpora(self, notes, others, error):
        assert "--min-score" in error("discover", notes, others, "night", "--min-score", "0.3")


class TestExpand:
    def test_prints_the_passage_around_a_surface(self, notes, lines):
        assert lines("expand", "bread.md") == ["Bread", "", "Flour, water, salt."]
        assert lines("expand", notes, "bread.md", "--surface-index", "1", "--window", "0") == [
            "# Bread",
            "",
            "Flour, water, salt.",
            "",
            "## Baking",
            "",
            "Bake it for an hour.",
        ]

    def test_prints_the_whole_document(self, notes, lines):
        whole = lines("expand", "bread.md", "--parent")
        assert (whole[0], whole[-1]) == ("Bread", "Bake it for an hour.")

    def test_prints_json_with_the_ids_of_its_records(self, notes, objects):
        (told,) = objects("expand", "bread.md", "--parent")
        assert (told["type"], told["artifact_id"], told["source"], told["surface_index"]) == (
            "passage",
            "bread.md",
            "notes",
            0,
        )
        assert len(told["record_ids"]) == 2
        assert "score" not in told

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["notez", "bread.md"], "known: notes"),
            (["cake.md"], "no document 'cake.md'"),
            (["bread.md", "--surface-index", "9"], "'bread.md' has no surface 9; its surfaces: 0, 1"),
            (["bread.md", "--window", "-1"], "--window must be"),
            (["bread.md", "--window", "2", "--parent"], "--window"),
            (["a", "b", "c"], "[CORPUS] ARTIFACT_ID"),
        ],
    )
    def test_mistakes_are_one_line(self, notes, error, argv, said):
        assert said in error("expand", *argv)


class TestCalibrate:
    def test_prints_a_floor_and_a_summary(self, notes, cases, lines):
        floor, positive, negative, measured = lines("calibrate", cases, "-m", "dense")
        assert re.fullmatch(r"floor: 0\.\d{4} \(calibrated\) for dense search of 'notes', k=10", floor)
        assert re.fullmatch(r"with an answer: 2 cases, evidence .*; 1 more were not found", positive)
        assert negative.startswith("without one: 2 cases")
        assert "specificity 1.0000" in measured

    def test_saves_the_floor_for_discover(self, notes, cases, lines, objects, capsys):
        lines = lines("calibrate", notes, cases, "-m", "dense", "--save")
        assert lines[-1] == "saved as dense; `airw discover --min-score auto` uses it"
        progress, summary = objects("discover", "a month in Rome", "-m", "dense", "--min-score", "auto")
        assert f"floor: {progress['report']['floor']:.4f} " in lines[0]
        assert summary["reason"] == "abstain:below_floor"

    def test_prints_the_calibration_in_json(self, notes, cases, objects):
        (told,) = objects("calibrate", cases, "-m", "dense", "--sensitivity-weight", "1", "-k", "1")
        assert (told["type"], told["saved"], told["sensitivity"]) == ("calibration", False, 1)
        assert (told["sensitivity_weight"], told["k"], told["mode"]) == (1, 1, "dense")

    def test_saves_nothing_if_one_kind_of_case_is_missing(self, notes, tmp_path, capsys):
        file = tmp_path / "cases.jsonl"
        file.write_text('{"query": "signing keys", "gold": "keys.md"}\n', encoding="utf-8")
        assert main(["calibrate", str(file), "--save"]) == 1
        told = capsys.readouterr()
        assert told.out.startswith("floor: none (no abstention cases)")
        assert told.err == "airw: nothing saved, because there is no floor\n"

    def test_a_search_without_a_stored_floor_prints_a_warning(self, notes, capsys):
        assert main(["discover", "signing keys", "--min-score", "auto"]) == 0
        told = capsys.readouterr()
        assert "keys.md" in told.out
        assert told.err.startswith("airw: no floor for 'notes': ")

    @pytest.fixture
    def in_folder(self, notes, cases, tmp_path, monkeypatch):
        (tmp_path / "bad.jsonl").write_text("{", encoding="utf-8")
        monkeypatch.chdir(tmp_path)

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["notez", "cases.jsonl"], "known: notes"),
            (["cases.jsonl", "-m", "deep"], "--mode"),
            (["cases.jsonl", "--sensitivity-weight", "2"], "--sensitivity-weight must be"),
            (["nowhere.jsonl"], "cannot read 'nowhere.jsonl'"),
            (["bad.jsonl"], "bad.jsonl, line 1, is not JSON"),
            (["cases.jsonl", "--rerank", "oracle"], "'oracle'"),
            (["a", "b", "c"], "[CORPUS] CASES.jsonl"),
        ],
    )
    def test_mistakes_are_one_line(self, in_folder, error, argv, said):
        assert said in error("calibrate", *argv)
