"""Faults of `ir` 0.1.61 in its commands, which airw lacks.

The docstring of a test begins with the number of the fault.
"""

import pytest

from airw.cli import main


@pytest.mark.parametrize(("flags", "kept"), [([], 1), (["--no-prune"], 2)])
def test_the_command_line_removes_missing_documents_except_with_no_prune(tmp_path, capsys, flags, kept):
    """F14: the flag is named after its effect."""
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / f"{name}.md").write_text(f"text of {name}")
    assert main(["build", str(folder), "--embedder", "light"]) == 0
    (folder / "b.md").unlink()
    assert main(["build", str(folder), *flags]) == 0
    assert f"contains {kept} documents" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["search", "traverse"])
def test_an_unknown_name_on_the_command_line_is_exit_code_2(home, capsys, command):
    """F17: an error, not an empty answer."""
    assert main([command, "nope", "words"]) == 2
    assert "there is no corpus 'nope'" in capsys.readouterr().err
    assert not home.exists()


@pytest.mark.parametrize(
    "words",
    [
        ["search", "nope", "x", "--mode", "zzz"],
        ["discover", "nope", "x", "--min-score", "abc"],
        ["calibrate", "nope", "missing.jsonl"],
        ["register", "nope", "nokind"],
        ["register", "nope", "interval", "--every-hours", "abc"],
        ["maintain", "nope"],
        ["coverage", "nope"],
    ],
)
def test_invalid_arguments_on_the_command_line_are_one_line_and_exit_code_2(home, capsys, words):
    """F45: never a traceback."""
    try:
        code = main(words)
    except SystemExit as left:  # argparse exits like this
        code = left.code
    message = capsys.readouterr().err
    assert (code, message.count("\n"), message.startswith("airw: ")) == (2, 1, True)
    assert not home.exists()
