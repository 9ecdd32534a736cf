"""Count packages: `python -m tests.project.mass PACKAGE... [--rooms]`.

It counts what a reader has to hold:

- code: lines with something besides comments, docstrings and blanks.
- nodes: nodes of the syntax tree without docstrings, imports and annotations. So a line of three statements is three.
- text: characters in strings other than docstrings, and bytes of files that are not Python.
- once: private functions and classes that are named once besides their definition. They are helpers with one caller.
- protocols: classes derived from Protocol or ABC.
- any: uses of Any and cast.
- ignored: comments that switch a checker off.

A room is a folder or a file at the top of a package. `python -m tests.project.mass --lower` lowers the budgets of
`budgets.toml` to what the rooms of airw need now; a budget never rises by it.
"""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

AIRW = Path(__file__).parents[2] / "airw"
BUDGETS = Path(__file__).parent / "budgets.toml"
MEASURES = ("nodes", "code", "text", "files", "protocols", "once", "any", "ignored")

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
CONTEXTS = (ast.Load, ast.Store, ast.Del)
NO_TEXT = {".py", ".pyc", ".pyi", ".typed", ".so", ".exe"}
SWITCHES_OFF = re.compile(r"type: *ignore|noqa|pyright: *ignore|pragma: no cover")


@dataclass
class FileMass:
    """The counts of one Python file; the private names wait for the words of the other files."""

    counts: Counter
    words: Counter
    private: list[str] = field(default_factory=list)


def is_docstring(node) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def walk_uncounted(nodes):
    """Yield the nodes of docstrings, imports and annotations.

    Python shares the node of an operator: one that an annotation has, such as `|`, does not count in its file.
    """
    for node in nodes:
        if is_docstring(node) or isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from ast.walk(node)
        for name in ("annotation", "returns"):
            annotation = getattr(node, name, None)
            if isinstance(annotation, ast.AST):
                yield from ast.walk(annotation)


def is_protocol(node) -> bool:
    bases = [*node.bases, *(keyword.value for keyword in node.keywords)]
    return any(re.search(r"\b(Protocol|ABC|ABCMeta)\b", ast.unparse(base)) for base in bases)


def count_file(path) -> FileMass:
    """Return the counts of a Python file."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    aside = {id(node) for node in walk_uncounted(nodes)}
    docstrings = {n for node in nodes if is_docstring(node) for n in range(node.lineno, node.end_lineno + 1)}
    lines, ignored = set(), 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
        elif token.type == tokenize.COMMENT:
            ignored += bool(SWITCHES_OFF.search(token.string))
    words = Counter(re.findall(r"\b\w+\b", source))
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    definitions = [node.name for node in nodes if isinstance(node, (*FUNCTIONS, ast.ClassDef))]
    strings = [node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in aside]
    counts = Counter(
        files=1,
        code=len(lines - docstrings),
        nodes=sum(id(node) not in aside and not isinstance(node, CONTEXTS) for node in nodes),
        text=sum(len(string) for string in strings if isinstance(string, str)),
        functions=sum(isinstance(node, FUNCTIONS) for node in nodes),
        classes=len(classes),
        protocols=sum(map(is_protocol, classes)),
        any=words["Any"] + words["cast"],
        ignored=ignored,
    )
    private = [name for name in definitions if name.startswith("_") and not name.startswith("__")]
    return FileMass(counts, words, private)


def count_rooms(package) -> dict[str, Counter]:
    """Return the counts of each room of a package, the largest first."""
    files = {path: count_file(path) for path in sorted(package.rglob("*.py"))}
    words = Counter()
    for mass in files.values():
        words.update(mass.words)
    rooms = defaultdict(Counter)
    for path, mass in files.items():
        room = rooms[path.relative_to(package).parts[0]]
        room.update(mass.counts)
        # A definition and one use, both in this file.
        room["once"] += sum(mass.words[name] <= 2 and words[name] <= mass.words[name] for name in mass.private)
    for path in package.rglob("*"):
        if path.is_file() and path.suffix not in NO_TEXT and "__pycache__" not in path.parts:
            rooms[path.relative_to(package).parts[0]]["text"] += path.stat().st_size
    return dict(sorted(rooms.items(), key=lambda item: -item[1]["nodes"]))


def load_budgets() -> dict:
    """Return the budget of each room, and of all rooms in `total_nodes`."""
    return tomllib.loads(BUDGETS.read_text(encoding="utf-8"))


def lower_budgets() -> None:
    """Write `budgets.toml` with what each room needs now, where that is less than its budget."""
    budgets, rooms = load_budgets(), count_rooms(AIRW)
    introduction = BUDGETS.read_text(encoding="utf-8").partition("[rooms]")[0]
    lines = [f"{introduction}[rooms]"]
    for name in sorted(rooms):
        before = budgets["rooms"].get(name, {})
        lowered = {measure: min(rooms[name][measure], before.get(measure, 1 << 60)) for measure in MEASURES}
        values = ", ".join(f"{measure} = {value}" for measure, value in lowered.items())
        key = f'"{name}"' if "." in name else name
        lines.append(f"{key} = {{ {values} }}")
    BUDGETS.write_text("\n".join([*lines, ""]), encoding="utf-8")


def show(name, counts) -> None:
    numbers = " ".join(f"{measure} {counts[measure]:6}" for measure in (*MEASURES, "functions", "classes"))
    print(f"{name:16} {numbers} once per 1,000 lines {1000 * counts['once'] / max(counts['code'], 1):5.1f}")


def main(arguments) -> None:
    if "--lower" in arguments:
        lower_budgets()
    for argument in arguments:
        if not argument.startswith("--"):
            rooms = count_rooms(Path(argument))
            show(Path(argument).name, sum(rooms.values(), Counter()))
            if "--rooms" in arguments:
                for room, counts in rooms.items():
                    show(f"  {room}", counts)


if __name__ == "__main__":
    main(sys.argv[1:])
