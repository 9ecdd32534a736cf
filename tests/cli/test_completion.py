"""Shell completion: in a real bash, and what it asks airw for."""

import subprocess
import sys
from pathlib import Path

import pytest

from airw.cli import main
from airw.cli.completion import SCRIPTS, find_candidates
from airw.policies.specs import list_policies
from tests.support.commands import COMMANDS


@pytest.fixture(autouse=True)
def corpora(home):
    (home / "corpora").mkdir(parents=True)
    for name in ("notes", "nodes", "eips"):
        (home / "corpora" / f"{name}.airw").touch()
    assert main(["register", "planned", "notes", "--root", "."]) == 0


@pytest.mark.parametrize(
    ("words", "candidates"),
    [
        (["se"], ["search", "serve"]),
        (["link", ""], ["check", "list", "path", "tree"]),
        (["search", "no"], ["nodes", "notes"]),
        (["search", "notes", ""], []),
        (["discover", "notes", "e"], ["eips"]),
        (["build", "pl"], ["planned"]),
        (["link", "tree", "n"], ["nodes", "notes"]),
        (["link", "tree", "notes", "n"], []),
        (["info", "e"], ["eips"]),
        (["context", "e"], ["eips"]),
        (["search", "-c", "e"], ["eips"]),
        (["search", "--corpus", "e"], ["eips"]),
        (["search", "--mode", "le"], ["lexical"]),
        (["search", "--mode=le"], ["--mode=lexical"]),
        (["search", "--mode", "=", "le"], ["lexical"]),
        (["search", "--mode", "="], ["dense", "hybrid", "lexical"]),
        (["search", "--rerank-t"], ["--rerank-text"]),
        (["search", "--all-surfaces", "e"], ["eips"]),
        (["search", "-k", "3", "e"], ["eips"]),
        (["traverse", "--policy", ""], sorted(list_policies())),
        (["traverse", "--policy", "beam", "--set", "w"], ["width="]),
        (["traverse", "--set", "start"], ["start_k="]),
        (["completion", "b"], ["bash"]),
        (["serve", "notes", "no"], ["nodes", "notes"]),
        (["serve", "--write", "no"], ["nodes", "notes"]),
        (["register", "x", "no"], []),
        (["nonsense", ""], []),
        (["nonsense", "--x", "-"], ["--help", "--version", "-h"]),
    ],
)
def test_candidates(words, candidates):
    found = find_candidates(words)
    assert found == candidates if words[0] != "nonsense" else set(found) >= set(candidates)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_every_command_is_a_candidate(name):
    assert set(COMMANDS[name]._option_string_actions) == set(find_candidates([*name.split(), "-"]))


def test_candidates_are_printed_one_a_line_and_never_an_error(capsys, home):
    assert main(["__complete", "link", "t"]) == 0
    assert capsys.readouterr().out == "tree\n"
    (home / "registry.json").write_text("{", encoding="utf-8")
    assert main(["__complete", "search", "n"]) == 0
    told = capsys.readouterr()
    assert (told.out, told.err) == ("", "")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_each_script_asks_airw(shell, output_of):
    told = output_of("completion", shell)
    assert told == SCRIPTS[shell]
    assert "airw __complete" in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("airw se", ["search", "serve"]),
        ("airw search no", ["nodes", "notes"]),
        ("airw search notes keys --mode le", ["lexical"]),
        ("airw search notes keys --mode=le", ["lexical"]),
        ("airw traverse --policy beam --set wi", ["width="]),
        ("airw link tree -c e", ["eips"]),
        ("airw build examp", []),
    ],
)
def test_a_real_bash_completes(line, candidates, tmp_path):
    program = f"""
        airw() {{ "{sys.executable}" -m airw "$@"; }}
        eval "$(airw completion bash)"
        COMP_LINE={line!r}
        COMP_POINT=${{#COMP_LINE}}
        compopt() {{ :; }}
        IFS=' ' read -ra COMP_WORDS <<< "${{COMP_LINE//=/ = }}"
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _airw
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, timeout=60, check=True, cwd=Path(__file__).parents[2]
    )
    assert (done.stdout.split(), done.stderr) == (candidates, "")
