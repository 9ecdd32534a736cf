"""Commands that evaluate, as a user sees them."""

import json
import re
import shutil

import pytest

from airw.cli import main
from airw.evaluation import SWEEP_MEASURES, load_cases
from tests.support.chat_server import ChatServer
from tests.support.commands import COMMANDS

NOTES = {
    "keys.md": "# Signing keys\n\nRotate the signing keys every month, see [[vault]].\n",
    "vault.md": "# Vault\n\nNobody may copy what lies here.\n",
    "bread.md": "# Bread\n\nFlour, water and salt.\n",
}
CASES = [
    {"query": "rotate signing keys", "gold": ["keys.md", "vault.md"]},
    {"query": "flour water salt", "gold": ["bread.md"]},
    {"query": "a month in Rome", "gold": []},
]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Build a corpus of three notes; return its home and the folder of its notes."""
    folder = tmp_path_factory.mktemp("library")
    for file, text in NOTES.items():
        (folder / "notes").mkdir(exist_ok=True)
        (folder / "notes" / file).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRW_HOME", str(folder / "home"))
        assert main(["build", str(folder / "notes"), "--embedder", "light"]) == 0
    return folder


@pytest.fixture
def notes(library, home):
    shutil.copytree(library / "home", home)
    return "notes"


@pytest.fixture
def cases(tmp_path):
    file = tmp_path / "cases.jsonl"
    file.write_text("".join(f"{json.dumps(case)}\n" for case in CASES), encoding="utf-8")
    return str(file)


class TestEval:
    def test_prints_measures_costs_and_classes(self, notes, cases, output_of):
        head, header, line, classes, score, _, evidence = output_of("eval", notes, cases, "-m", "lexical").splitlines()
        assert head == "flat: 2 cases with an answer, 1 without"
        assert header.split()[:3] == ["system", "ndcg@10", "recall@1"]
        assert line.split()[0] == "flat"
        assert classes == "hit_rank_1 2, abstention_unscored 1"
        assert score.startswith("best score: AUC 1.000")
        assert evidence.startswith("evidence: AUC 1.000")

    def test_measures_a_walk_with_settings(self, notes, cases, objects):
        [found] = objects("eval", notes, cases, "--policy", "beam seeding=lexical", "--measures", "all_gold@5")
        assert found["system"] == "beam seeding=lexical"
        assert found["measures"] == {"all_gold@5": 1.0}
        assert found["type"] == "evaluation"

    def test_prints_a_line_for_each_query(self, notes, cases, objects):
        *rows, _ = objects("eval", notes, cases, "--rows")
        assert [row["query"] for row in rows] == [case["query"] for case in CASES]
        assert {row["type"] for row in rows} == {"query"}

    def test_notes_answers_that_are_gone(self, notes, tmp_path, output_of):
        file = tmp_path / "gone.jsonl"
        file.write_text('{"query": "salt", "gold": ["bread.md", "gone.md"]}', encoding="utf-8")
        output_of("eval", notes, file, err="airw: answers of 1 cases are not in the corpus: 'gone.md'\n")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--policy", "nothing"], r"--policy must be one of beam, .*, not 'nothing'"),
            (["--policy", "beam width"], r"--set takes NAME=VALUE"),
            (["--measures", "f1"], r"a measure must be one of ndcg, "),
            (["--policy", "beam", "--rerank", "cross-encoder"], r"--rerank is for searches"),
        ],
    )
    def test_refuses_mistakes(self, notes, cases, error, options, message):
        assert re.search(message, error("eval", notes, cases, *options))

    def test_refuses_a_file_without_cases(self, notes, tmp_path, error):
        (tmp_path / "none.jsonl").write_text("", encoding="utf-8")
        assert "contains no cases" in error("eval", notes, tmp_path / "none.jsonl")


class TestCompare:
    def test_prints_one_table(self, notes, cases, output_of):
        header, *lines = output_of("compare", notes, cases, "--policy", "eager", "--policy", "beam").splitlines()
        assert "ndcg@10 - flat" in header
        assert [line.split()[0] for line in lines] == ["flat", "eager", "beam"]

    def test_promotes_nobody_with_few_cases(self, notes, cases, objects, monkeypatch):
        from airw.reranking import cross_encoder

        class ByLength:
            id = "by-length"

            def __init__(self, model=None):
                self.model = model

            def check_runnable(self):
                pass

            def __call__(self, query, texts):
                return [float(len(text)) for text in texts]

        monkeypatch.setattr(cross_encoder, "CrossEncoderReranker", ByLength)
        *_, verdict = objects(
            "compare", notes, cases, "--policy", "beam", "--rerank", "cross-encoder", "--promote", code=1
        )
        assert verdict["type"] == "promotion"
        assert not verdict["promoted"]
        assert verdict["reasons"][-1] == "2 cases with an answer are too few, 20 are needed"

    def test_refuses_equal_policies_before_it_opens_the_corpus(self, cases, error):
        policies = ["--policy", "beam width=8", "--policy", "eager", "--policy", "beam  'width=8'"]
        assert "--policy 'beam width=8' is given twice" in error("compare", "nothing", cases, *policies)

    def test_needs_a_reranker_for_promotion(self, notes, cases, error):
        assert "--promote needs --policy POLICY, and --rerank SPEC" in error(
            "compare", notes, cases, "--policy", "beam", "--promote"
        )


class TestSelections:
    def test_are_measured(self, notes, cases, output_of, objects):
        text = output_of("eval-select", notes, cases, "--max-k", "1", "-m", "lexical")
        assert text.splitlines()[-1].split() == ["conservative", "1.000", "1.000", "1.000", "1.000", "0.000", "1.000"]
        [found] = objects("eval-select", notes, cases, "--min-score", "99")
        assert (found["conditional_commit_rate"], found["abstention_accuracy"]) == (0, 1)

    def test_are_swept(self, notes, cases, output_of, objects):
        text = output_of("sweep-select", notes, cases, "-m", "lexical", "-o", "mean_selected_size")
        assert text.splitlines()[-1] == "best mean_selected_size: max_k=1 rel=0.9"
        [found] = objects("sweep-select", notes, cases)
        assert len(found["points"]) == 30

    def test_offer_the_measures_of_the_library(self):
        [objective] = [each for each in COMMANDS["sweep-select"]._actions if "--objective" in each.option_strings]
        assert objective.choices == SWEEP_MEASURES


class TestEvalGen:
    def test_writes_cases_of_both_kinds(self, notes, tmp_path, output_of):
        file = tmp_path / "made.jsonl"
        with ChatServer(lambda prompt: "one\ntwo" if "hidden" in prompt else "three") as server:
            text = output_of("eval-gen", notes, file, "-k", "1", "--model", server.spec, "--max-artifacts", "2")
            assert main(["eval-gen", notes, str(file), "--model", server.spec]) == 2  # the file exists
        assert text.startswith(f"{file} contains 3 cases, 1 of them without an answer")
        made = load_cases(file)
        assert [(case.query, case.gold) for case in made] == [
            ("one", ("bread.md",)),
            ("one", ("keys.md",)),
            ("three", ()),
        ]

    def test_writes_the_cases_it_has_if_the_model_invents_none(self, notes, tmp_path, capsys):
        file = tmp_path / "made.jsonl"
        with ChatServer(lambda prompt: "one" if "hidden" in prompt else None) as server:
            assert main(["eval-gen", notes, str(file), "--model", server.spec]) == 1
        assert "left out: cases without an answer: ChatError: " in capsys.readouterr().err
        assert {case.query for case in load_cases(file)} == {"one"}
