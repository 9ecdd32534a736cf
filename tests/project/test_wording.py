"""The words of the library: what a machine can see of names, docstrings and pages.

The rules are in CONTRIBUTING.md, "Words". A rule that a machine cannot check is left to the reader of a change.
"""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.syntax import FUNCTIONS, forget_trees, statements_of

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "airw").rglob("*.py"))
TESTS = sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "examples").glob("*.py")])
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
GLOSSARY = ROOT / "docs" / "glossary.md"
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)

LONGEST_FIRST_LINE = 88
MOST_WORDS_IN_A_SENTENCE = 30
MOST_WORDS_ON_AVERAGE = 16
LONGEST_README = 90
LONGEST_PAGE_WITHOUT_CONTENTS = 300

# A docstring begins with a verb that says what a caller gets, as those of Python do: "Return", "Yield", "Search".
NO_FIRST_WORDS = {"Give", "Say", "Tell", "Let", "What", "Whether", "How", "Where", "Which", "Who", "One"}
IMPERATIVES_IN_ED = {"embed", "exceed", "feed", "need", "proceed", "seed", "speed"}
ADJECTIVES = {"unresolved"}  # `unresolved_links` is a noun
IRREGULAR_PARTICIPLES = {
    *("begun", "bound", "built", "chosen", "drawn", "forgotten", "found", "given", "gone", "held", "kept"),
    *("known", "left", "lost", "made", "met", "said", "seen", "sent", "shown", "shut", "taken", "thrown"),
    *("told", "written"),
}
# Words of an earlier dialect: each has a term in the glossary, or a plain word.
RETIRED = {
    "look over the edge": "count beyond the limits",
    "looked over": "counted beyond the limits",
    "is told of": "is reported",
    "each once": "without duplicates",
    "what is asked for": "the request",
    "mass of ranks": "fused score",
}


@pytest.fixture(scope="module", autouse=True)
def _forget_trees():
    yield
    docstrings.cache_clear()
    forget_trees()


def relative_path(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def nodes_of(paths, kinds) -> Iterator[tuple[Path, ast.AST]]:
    return ((path, node) for path in paths for node in statements_of(path) if isinstance(node, kinds))


@cache
def docstrings() -> list[tuple[str, ast.AST, str]]:
    """Return where each docstring stands, its node, and its text."""
    found = []
    for path, node in nodes_of([*MODULES, *TESTS], DOCUMENTED):
        text = ast.get_docstring(node)
        if text:
            name = getattr(node, "name", "module")
            found.append((f"{relative_path(path)}:{getattr(node, 'lineno', 1)} {name}", node, text))
    return found


def is_participle(name: str) -> bool:
    first = name.strip("_").partition("_")[0]
    return first in IRREGULAR_PARTICIPLES or (first.endswith("ed") and first not in IMPERATIVES_IN_ED | ADJECTIVES)


@pytest.mark.parametrize("name", ["ranked", "_told", "shown_in_order", "held"])
def test_a_participle_is_seen(name):
    assert is_participle(name)


@pytest.mark.parametrize("name", ["embed_query", "seed", "rank", "read_page", "needs", "_feed"])
def test_an_imperative_is_no_participle(name):
    assert not is_participle(name)


@pytest.mark.slow
def test_functions_are_not_named_by_a_participle():
    """`ranked(hits)` leaves open what it does; `rank(hits)` does not.

    Properties may state a fact: `truncated`.
    """
    faults = []
    for path, node in nodes_of([*MODULES, *TESTS], FUNCTIONS):
        if not is_participle(node.name):
            continue
        decorators = {ast.unparse(decorator) for decorator in node.decorator_list}
        is_field = decorators & {"property", "cached_property", f"{node.name}.setter"} and not node.name.startswith("_")
        if not is_field:
            faults.append(f"{relative_path(path)}:{node.lineno} {node.name}")
    assert faults == []


def test_each_class_has_a_name_of_its_own():
    homes = defaultdict(list)
    for path, node in nodes_of(MODULES, ast.ClassDef):
        homes[node.name].append(relative_path(path))
    assert {name: paths for name, paths in homes.items() if len(paths) > 1} == {}


def test_docstrings_of_functions_begin_with_a_verb_that_says_what_they_do():
    faults = []
    for place, node, text in docstrings():
        first = text.split(maxsplit=1)[0].strip(".,:;`")
        if isinstance(node, FUNCTIONS) and first in NO_FIRST_WORDS:
            faults.append(f"{place}: {first}")
    assert faults == []


def test_the_first_line_of_a_docstring_is_short():
    first_lines = ((place, text.splitlines()[0]) for place, _, text in docstrings())
    assert [f"{place}: {len(line)}" for place, line in first_lines if len(line) > LONGEST_FIRST_LINE] == []


def sentences(prose: str) -> list[str]:
    """The sentences of a text without code, tables and headings; list items count, too."""
    prose = re.sub(r"```.*?```|~~~.*?~~~", "\n\n", prose, flags=re.DOTALL)
    prose = re.sub(r"(?m)^ *(\||#|>>>|\.\.\. ).*$", "\n", prose)
    prose = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", prose)  # of a link, its text
    prose = re.sub(r"`[^`]*`", "code", prose)  # however long, it is read as one word
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\s*[*\w]+: )", prose)
    return [s for block in blocks for s in re.split(r"(?<=[.!?:;])[\s*)\"]+", " ".join(block.split())) if s]


def test_sentences_are_split_as_a_reader_does():
    page = (
        "# Title\n\nOne two. Three `a b c` four:\n\n- five\n- six [seven](eight.md)\n\n| a | b |\n\n```python\nx\n```\n"
    )
    assert sentences(page) == ["One two.", "Three code four:", "- five", "- six seven"]


def too_long(text: str) -> list[str]:
    return [sentence for sentence in sentences(text) if len(sentence.split()) > MOST_WORDS_IN_A_SENTENCE]


def test_sentences_in_docstrings_are_short():
    assert [f"{place}: {sentence}" for place, _, text in docstrings() for sentence in too_long(text)] == []


every_page = pytest.mark.parametrize("page", PAGES, ids=relative_path)


@every_page
def test_sentences_in_pages_are_short(page):
    text = page.read_text(encoding="utf-8")
    assert too_long(text) == []
    lengths = [len(sentence.split()) for sentence in sentences(text)]
    assert sum(lengths) / len(lengths) <= MOST_WORDS_ON_AVERAGE


def anchors_of(page: Path) -> set[str]:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"(?m)^#+ (.+)$", text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@every_page
def test_links_between_pages_lead_somewhere(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    faults = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if ":" in path:
            continue
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors_of(there)):
            faults.append(target)
    assert faults == []


@every_page
def test_long_pages_have_a_table_of_contents(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("\n") <= LONGEST_PAGE_WITHOUT_CONTENTS or len(re.findall(r"\]\(#[\w-]+\)", text[:3_000])) >= 3


def test_the_readme_is_read_in_five_minutes():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= LONGEST_README


@every_page
def test_terms_that_a_page_introduces_are_in_the_glossary(page):
    """A page sets a term in italics where it introduces it."""
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    terms = re.findall(r"(?<![*\w])[*_]([a-z][\w -]+?)[*_](?![*\w])", text)
    glossary = GLOSSARY.read_text(encoding="utf-8").lower()
    assert [term for term in terms if term.lower() not in glossary] == []


def test_the_glossary_lists_each_term_once_and_pages_use_all():
    terms = re.findall(r"(?m)^### (.+)$", GLOSSARY.read_text(encoding="utf-8"))
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES if page != GLOSSARY)
    text = (pages + "".join(path.read_text(encoding="utf-8") for path in MODULES)).lower()
    assert len(set(terms)) == len(terms)
    spellings = {term: {term.lower().rstrip("s"), term.lower().replace(" ", "")} for term in terms}
    assert [term for term, spelled in spellings.items() if not any(spelling in text for spelling in spelled)] == []


def test_retired_words_do_not_come_back():
    faults = []
    for path in [*PAGES, *MODULES]:
        text = " ".join(path.read_text(encoding="utf-8").lower().split())
        place = relative_path(path)
        faults += [f"{place}: {word!r}, write {better!r}" for word, better in RETIRED.items() if word in text]
    assert faults == []


def test_the_picture_of_the_house_shows_the_layers_that_are_enforced():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    [contract] = [each for each in config["tool"]["importlinter"]["contracts"] if each["type"] == "layers"]
    layers = [layer.replace("|", " ").split() for layer in contract["layers"] if layer != "(__main__)"]
    picture = (ROOT / "docs" / "design.md").read_text(encoding="utf-8").split("```")[1]
    rows = re.findall(r"(?m)^(.+) │ ", picture)
    assert [row.split() for row in rows] == layers
