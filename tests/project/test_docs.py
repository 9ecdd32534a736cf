"""Every block of the documentation runs, in order, and prints the output shown below it.

Each page has one namespace, one event loop, one working folder and one `AIRW_HOME`; so has each docstring. If a block
names `examples`, the folder contains a copy of them. What runs:

- `python` blocks; `await`, `async for` and `async with` may stand at the top level. A `text` block that follows at once
  must equal what the block prints.
- `console` blocks: each line that starts with `$ ` runs in a shell; the lines below it must equal its output. A
  command of `airw` alone runs in this process: each start of Python would take longer than most commands.
- `sql` blocks: `psql` runs them as the superuser of a server that the tests start for the page.
- `>>>` examples in docstrings.

In expected output `...` matches anything, and times in ms are not compared. No block can be exempted.
"""

import ast
import asyncio
import contextlib
import doctest
import importlib
import inspect
import io
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path

import pytest

import airw
from airw.cli import main
from tests.support.postgres import PostgresServer, programs

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(
    r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`\n]*)\n(?P<body>.*?)^(?P=indent)(?P=ticks) *$",
    re.MULTILINE | re.DOTALL,
)
INSTALLS = re.compile(r"airw\[([\w,-]+)\]")
BLOCK = re.compile(r"^ *(>>>|```)", re.MULTILINE)
PLAIN_COMMAND = re.compile(r"airw [^|&;<>$`*?~#\\]+")  # in which a shell has nothing to do but to split it
# Large libraries, which take long to load, exams, which have hundreds of cases, and folders of hundreds of documents.
SLOW = re.compile(
    r"^(?:from|import) (?:airw\.integrations|airw\.testing|langchain|llama_index|mcp)|examples/data/", re.MULTILINE
)
SHELL = {"COLUMNS": "100", "NO_COLOR": "1"}


@dataclass(frozen=True)
class Block:
    """A fenced block: its first line, its body, and the `text` block that follows at once."""

    path: Path
    line: int
    language: str
    body: str
    expected: str | None


def blocks_of(path: Path, text: str, first_line: int = 1) -> list[Block]:
    fences = list(FENCE.finditer(text))
    found = []
    for fence, after in zip_longest(fences, fences[1:]):
        follows = after and after["info"].strip() == "text" and not text[fence.end() : after.start()].strip()
        expected = textwrap.dedent(after["body"]) if follows else None
        line = first_line + text.count("\n", 0, fence.start("body"))
        found.append(Block(path, line, fence["info"].strip(), textwrap.dedent(fence["body"]), expected))
    return [block for block in found if block.language.startswith(("py", "console", "sql"))]


def same_output(expected: str, printed: str) -> bool:
    def plain(text: str) -> str:
        text = re.sub(r"\d+(\.\d+)? ?ms\b", "0 ms", text.replace("…", "..."))
        return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"

    return doctest.OutputChecker().check_output(plain(expected), plain(printed), doctest.ELLIPSIS)


def assert_output(expected: str, printed: str) -> None:
    assert same_output(expected, printed), f"expected:\n{expected}\nprinted:\n{printed}"


def commands_of(body: str) -> list[tuple[str, str]]:
    """Return each command of a console block with the output below it."""
    shown = re.split(r"^\$ ", body.replace("\\\n", " "), flags=re.MULTILINE)
    assert not shown[0].strip(), "a console block starts with `$ ` and a command"
    return [(command, output) for command, _, output in (entry.partition("\n") for entry in shown[1:])]


def check_mention(command: str) -> None:
    """Check commands that would install or test against the files that exist."""
    if command.startswith("make "):
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert command.split()[1] in targets
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert set(",".join(INSTALLS.findall(command)).split(",")) <= {*extras, ""}


def run_airw(command: str) -> str:
    """Run a command of `airw` in this process, and return what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), pytest.MonkeyPatch.context() as patch:
        for name, value in SHELL.items():
            patch.setenv(name, value)
        assert main(shlex.split(command)[1:]) == 0, f"$ {command}\n{printed.getvalue()}"
    return printed.getvalue()


def run_in_shell(command: str) -> str:
    """Run a command in a shell, and return what it prints."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path, "PYTHONPATH": str(ROOT)} | SHELL
    done = subprocess.run(command, shell=True, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    return done.stdout


def run_console(body: str) -> None:
    for command, output in commands_of(body):
        if command.startswith(("make ", "pip install ", "git clone ")):
            check_mention(command)
            continue
        printed = run_airw(command) if PLAIN_COMMAND.fullmatch(command) else run_in_shell(command)
        if output.strip():
            assert_output(output, printed)


@dataclass
class Session:
    """The state that the blocks of one page share."""

    namespace: dict = field(default_factory=lambda: {"__name__": "__main__"})
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)

    def run_all(self, blocks: list[Block]) -> None:
        for block in blocks:
            try:
                self.run(block)
            except BaseException as error:
                error.add_note(f"in the block at {block.path}:{block.line}")
                raise

    def run(self, block: Block) -> None:
        if block.language == "console":
            run_console(block.body)
        elif block.language == "sql":
            run_in_shell(f"psql --quiet --set ON_ERROR_STOP=1 --dbname kb <<'END'\n{block.body}END")
        else:
            assert block.language == "python", f"```{block.language} would not run: use plain ```python"
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                self.run_python(block)
            if block.expected is not None:
                assert_output(block.expected, printed.getvalue())

    def run_python(self, block: Block) -> None:
        source = "\n" * (block.line - 1) + block.body
        code = compile(source, str(block.path), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if code.co_flags & inspect.CO_COROUTINE:
            self.runner.run(eval(code, self.namespace))
        else:
            exec(code, self.namespace)


def read_module(name: str) -> str:
    """Return the source text of a module of the library, without loading it."""
    path = ROOT.joinpath(*name.split("."))
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text(encoding="utf-8")


@cache
def library_docstrings() -> list[doctest.DocTest]:
    """Return every docstring of the library."""
    names = ["airw", *(module.name for module in pkgutil.walk_packages(airw.__path__, "airw."))]
    # A module without a block need not be loaded, nor the library that it needs.
    with_blocks = [name for name in names if not name.endswith("__main__") and BLOCK.search(read_module(name))]
    modules = [importlib.import_module(name) for name in with_blocks]
    finder = doctest.DocTestFinder(exclude_empty=False)
    return [test for module in modules for test in finder.find(module) if test.docstring]


def each_page(*, of_server):
    """Yield the blocks of pages and docstrings that need a server, or of all others."""
    texts = [(str(path.relative_to(ROOT)), path, path.read_text(encoding="utf-8"), 1) for path in PAGES]
    for test in library_docstrings():
        texts += [(test.name, Path(test.filename), test.docstring, (test.lineno or 0) + 1)]
    for name, path, text, first_line in texts:
        blocks = blocks_of(path, text, first_line)
        if blocks and any("postgresql://" in block.body for block in blocks) == of_server:
            yield name, blocks


def run_page(blocks, tmp_path, monkeypatch):
    if any("examples" in block.body for block in blocks):
        shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AIRW_HOME", str(tmp_path / "home"))
    session = Session()
    with session.runner:
        session.run_all(blocks)


def as_parameter(name, blocks):
    is_slow = name != "README.md" and any(SLOW.search(block.body) for block in blocks)
    return pytest.param(blocks, id=name, marks=[pytest.mark.slow] * is_slow)


@pytest.mark.parametrize("blocks", [as_parameter(name, blocks) for name, blocks in each_page(of_server=False)])
def test_page(blocks, tmp_path, monkeypatch):
    run_page(blocks, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [pytest.param(blocks, id=name) for name, blocks in each_page(of_server=True)])
def test_page_with_a_server(blocks, tmp_path, monkeypatch):
    with PostgresServer() as server:
        monkeypatch.setenv("PGHOST", str(server.folder))
        monkeypatch.setenv("PGUSER", "postgres")
        monkeypatch.setenv("PATH", os.pathsep.join([str(programs()), os.environ["PATH"]]))
        if not any("createdb" in block.body for block in blocks):
            run_in_shell("createdb kb")
        run_page(blocks, tmp_path, monkeypatch)


def docstrings_by_module():
    """Return the docstrings with examples of each module, by the name of its file."""
    found = defaultdict(list)
    for test in library_docstrings():
        if test.examples:
            found[str(Path(test.filename).relative_to(ROOT))].append(test)
    return found


@pytest.mark.parametrize("tests", [pytest.param(tests, id=name) for name, tests in docstrings_by_module().items()])
def test_docstrings(tests, tmp_path, monkeypatch):
    report = io.StringIO()
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for test in tests:
        folder = tmp_path / test.name
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("AIRW_HOME", str(folder / "home"))
        runner.run(test, out=report.write, clear_globs=False)
    assert not runner.failures, report.getvalue()


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a 3.5 ms\n", "a 12 ms", True),
        ("a ... z\n", "a b\nc z\n", True),
        ("a\n", "a\nb\n", False),
        ("", "a\n", False),
        ("a 1 s\n", "a 2 s\n", False),
    ],
)
def test_expected_output_is_exact_except_for_dots_and_milliseconds(expected, printed, same):
    assert same_output(expected, printed) is same


def test_a_page_is_run_in_order_with_one_namespace_and_one_loop(tmp_path):
    page = """
```python
import asyncio
loops = [asyncio.get_running_loop() for _ in [await asyncio.sleep(0)]]
```

- in a list
  ```python
  loops.append(asyncio.get_running_loop() if await asyncio.sleep(0, True) else None)
  print(len(set(loops)), len(loops))
  ```
  ```text
  1 2
  ```

```python no-run
1 / 0
```
"""
    blocks = blocks_of(tmp_path / "page.md", page)
    assert [block.line for block in blocks] == [3, 9, 17]
    session = Session()
    with session.runner, pytest.raises(AssertionError, match="would not run") as caught:
        session.run_all(blocks)
    assert caught.value.__notes__ == [f"in the block at {tmp_path}/page.md:17"]


def test_a_block_that_prints_something_else_fails(tmp_path):
    blocks = blocks_of(tmp_path / "page.md", "```python\nprint(1)\n```\n\n```text\n2\n```\n")
    with pytest.raises(AssertionError, match="expected"):
        Session().run_all(blocks)


def test_a_command_that_fails_or_prints_something_else_fails():
    run_console("$ echo 1 \\\n  2\n1 2\n$ make test\n$ pip install 'airw[sentence-transformers]'\n")
    for wrong in ("$ echo 1\n2\n", "$ false\n", "$ make nothing\n", "$ pip install airw[nothing]\n", "echo 1\n"):
        with pytest.raises(AssertionError):
            run_console(wrong)


def test_each_short_program_has_at_most_ten_lines_beside_its_imports():
    path = ROOT / "docs" / "programs.md"
    sections = path.read_text(encoding="utf-8").split("\n## ")[1:]
    programs = [blocks_of(path, section)[0].body for section in sections]
    assert len(programs) == 5
    for program in programs:
        lines = [line for line in program.splitlines() if line.strip()]
        assert len([line for line in lines if not line.startswith(("import ", "from "))]) <= 10
