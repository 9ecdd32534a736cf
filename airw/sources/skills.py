"""Agent skills: folders that each hold a SKILL.md."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from airw._base.frontmatter import note_title, read_frontmatter, split_frontmatter
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError, SourceError
from airw.indexing import Skill
from airw.indexing.notes import first_paragraph
from airw.links import DependencyLinks
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.files import Folder, printable
from airw.sources.records import Fetched, Fetcher, check_fetcher
from airw.sources.source import PAGE, AsyncPages, CorpusSource, Item, Pages
from airw.values import Artifact, ItemProblem
from airw.values.filters import Filter, matches, parse_filter

SKILL_FOLDERS = (
    "~/.claude/skills",
    "~/.agents/skills",
    "~/.codex/skills",
    "~/.copilot/skills",
    "~/.gemini/skills",
    "~/.cursor/skills",
    "~/.config/opencode/skills",
    "~/.claude/plugins",
)
"""Where agents keep the skills of their user, plugins last; those of a project are in a folder of that project."""

_TEXTS = ("description", "body")
_HEAD = 20_000
_MAX_DESCRIPTION = 1_024  # as the authors of the format have it


@dataclass(frozen=True, slots=True)
class _Found:
    """A skill, or what is wrong with it, before it has an id: the first free one of `calls`."""

    calls: tuple[str, ...]
    item: Item
    warnings: tuple[str, ...] = ()


class _Said(NamedTuple):
    """What a SKILL.md says of itself; name and description are blank where it does not."""

    name: str
    description: str
    fields: Mapping[str, Any]
    body: str
    warnings: Sequence[str]


@dataclass(slots=True)
class _Reading:
    """One reading of the skills: which ids are taken, and what the filter left out."""

    wanted: Filter | None
    taken: set[str] = field(default_factory=set)
    seen: int = 0
    left_out: list[str] = field(default_factory=list)

    def items(self, found: _Found) -> Iterator[Item]:
        """Yield a skill under its id, whether or not the filter then wants it, so that no filter changes an id."""
        name = self._free(found.calls)
        if isinstance(found.item, ItemProblem):
            yield replace(found.item, item=name)
            return
        self.seen += 1
        if not matches(self.wanted, found.item.metadata):
            self.left_out.append(str(found.item.metadata.get("skill_path") or name))
            return
        yield from (ItemProblem(name, warning, lost=False) for warning in found.warnings)
        yield replace(found.item, id=name)

    def _free(self, calls: Sequence[str]) -> str:
        numbered = (f"{calls[-1]}#{number}" for number in range(2, len(self.taken) + 3))
        name = next(call for call in (*calls, *numbered) if call not in self.taken)
        self.taken.add(name)
        return name

    def check(self) -> None:
        """Raise where the filter left nothing."""
        if self.seen and self.seen == len(self.left_out):
            raise SourceError(f"the filter leaves none of the {self.seen} skills")


@dataclass(frozen=True, slots=True)
class _Folders:
    """The skills below several folders."""

    roots: tuple[Path, ...] | None
    wanted: Filter | None
    bodies: bool

    def pages(self) -> Pages:
        """Read the skills of one folder after the other, in order of path."""
        yield from self._read(_Reading(self.wanted))

    def excluded(self) -> Mapping[str, Sequence[str]]:
        """Read the skills for the paths of those that the filter leaves out."""
        reading = _Reading(self.wanted)
        for _ in self._read(reading):
            pass
        return {"filter": reading.left_out} if reading.left_out else {}

    def _read(self, reading: _Reading) -> Pages:
        files = set[str]()
        for root in self._existing():
            folder = Folder(root)
            names, problems = folder.listed()
            yield [*(_unlisted(each) for each in problems if isinstance(each, ItemProblem)), *_links_in(root)]
            fresh = [name for name in names if _is_skill(name) and _is_new(root / name, files)]
            for first in range(0, len(fresh), PAGE):
                skills = [self._found(root, folder.read(name)) for name in fresh[first : first + PAGE]]
                yield [item for found in skills for item in reading.items(found)]
        if not files:
            looked = ", ".join(repr(str(root)) for root in self.roots or SKILL_FOLDERS)
            advice = "" if self.roots else " (roots=[...] names others)"
            raise SourceError(f"no SKILL.md below {looked}{advice}")
        reading.check()

    def _existing(self) -> list[Path]:
        """Return the folders to read; of the usual ones, those that are there."""
        if self.roots is not None:
            return [root.expanduser() for root in self.roots]
        return [folder for folder in (Path(usual).expanduser() for usual in SKILL_FOLDERS) if folder.is_dir()]

    def _found(self, root: Path, item: Item) -> _Found:
        """Make a skill of a SKILL.md; one that cannot be read is called after its folder, as most are."""
        name = item.item if isinstance(item, ItemProblem) else item.id
        path = Path(os.path.abspath(root / name))  # noqa: PTH100 - `resolve` would follow links
        if isinstance(item, ItemProblem):
            return _Found(_calls(path.parent.name, path, root), replace(item, reason=f"{name}: {item.reason}"))
        said = _said(item.raw)
        own = {"name": said.name or path.parent.name, "parent": _parent(path.parent)}
        calls = _calls(own["name"], path, root)
        if not said.name and not said.description:
            reason = "; ".join([*said.warnings, "there is no text to find it by: give it a description"])
            return _Found(calls, ItemProblem("", f"{name}: {reason}"))
        raw = {**own, "description": said.description, **({"body": said.body} if self.bodies else {})}
        metadata = {**said.fields, **own, "skill_path": str(path), "base_path": str(path.parent)}
        return _Found(calls, Artifact("", raw, metadata), tuple(f"{name}: {each}" for each in said.warnings))


def _links_in(root: Path) -> Iterator[ItemProblem]:
    """Yield a problem for each skill that is only linked to: a user who links them in would miss them."""
    for folder in sorted(root.iterdir()):
        files = (os.path.isfile(folder / name) for name in ("SKILL.md", "skill.md"))  # noqa: PTH113 - a Path's may raise
        if folder.is_symlink() and any(files):
            reason = f"a link to {os.path.realpath(folder)!r}, and links are not followed: name that folder in roots"
            yield ItemProblem(printable(folder.name), reason, lost=False)


def _unlisted(folder: ItemProblem) -> ItemProblem:
    """Call a folder that cannot be listed by its name alone: it may be the one of a skill that was indexed before."""
    return replace(folder, item=folder.item.rpartition("/")[2], reason=f"{folder.item}: {folder.reason}")


def _is_skill(name: str) -> bool:
    return name.rpartition("/")[2].lower() == "skill.md"


def _is_new(path: Path, files: set[str]) -> bool:
    """Return whether a file was not seen before: a folder may lie inside another one, or be a link to it."""
    real = os.path.realpath(path)
    known = real in files
    files.add(real)
    return not known


def _said(text: str) -> _Said:
    """Read what a SKILL.md says; its first paragraph, else its first heading, stands in for a description."""
    front = read_frontmatter(text)
    fields, problem = front.fields, front.problem
    body = text[split_frontmatter(text)[1] :]
    warnings = [problem] if problem else []
    name = " ".join(_text(fields, "name", warnings).split())
    description = _text(fields, "description", warnings)
    if not description:
        description = (first_paragraph(body[:_HEAD]) or note_title("", {}, body))[:_MAX_DESCRIPTION].rstrip()
        if not problem:
            warnings.append("has no description in its frontmatter; its first paragraph, if any, stands in for it")
    others = {key: value for key, value in fields.items() if key != "description"}
    return _Said(name, description, others, body, warnings)


def _text(fields: Mapping[str, Any], key: str, warnings: list[str]) -> str:
    value = fields.get(key, "")
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        warnings.append(f"the {key} in its frontmatter must be text, not {short_repr(value)}")
        return ""
    return "" if value is None else str(value).strip()


def _calls(name: str, path: Path, root: Path) -> tuple[str, ...]:
    """Return what a skill may be called, the shortest first; the last is its own in any case."""
    parent = _parent(path.parent)
    below = Path(os.path.relpath(path.parent, root)).as_posix()
    return (name, *([f"{name}@{parent}"] if parent else []), f"{name}@{below}", f"{name}@{path}")


def _parent(folder: Path) -> str:
    """Return the name of what a skill belongs to, a plugin or a project: the next folder above with its own name."""
    names = (above.name for above in folder.parents)
    return next((name for name in names if name and not name.startswith(".") and name.lower() != "skills"), "")


@dataclass(frozen=True, slots=True)
class _Records:
    """The skills that a fetcher gives."""

    fetched: Fetched
    wanted: Filter | None
    bodies: bool
    source: str

    async def pages(self) -> AsyncPages:
        """Read the skills in the fetcher's order."""
        reading = _Reading(self.wanted)

        pages = self.fetched.pages(lambda record, position: reading.items(self._found(record, position)))
        try:
            async for page in pages:
                yield page
        finally:
            await pages.aclose()
        reading.check()

    def _found(self, record: object, position: int) -> _Found:
        where = f"{self.source}[{position}]"
        if not isinstance(record, Mapping):
            return _Found((where,), ItemProblem("", f"a skill must be a mapping of fields, not {short_repr(record)}"))
        name, description = record.get("name"), record.get("description")
        if not isinstance(name, str) or not name.strip():
            reason = f"a skill needs a name, a string that is not blank; {where} has {short_repr(name)}"
            return _Found((where,), ItemProblem("", reason))
        ways = [way for key in ("parent", "skill_path") if isinstance(way := record.get(key), str) and way]
        calls = (name, *(f"{name}@{way}" for way in ways))
        if not isinstance(description, str | None):
            return _Found(calls, ItemProblem("", f"the description must be a string, not {short_repr(description)}"))
        try:
            fields = json_clean(record)
        except RecursionError:
            return _Found(calls, ItemProblem("", "its fields contain themselves or nest too deeply"))
        metadata = {key: value for key, value in fields.items() if key not in _TEXTS}
        raw = {key: value for key, value in record.items() if self.bodies or key != "body"}
        return _Found(calls, Artifact("", raw, metadata))


def _roots(given: object) -> tuple[Path, ...]:
    listed = [given] if isinstance(given, str | os.PathLike) else given
    if not isinstance(listed, Iterable) or isinstance(listed, bytes):
        raise ArgumentKindError(f"roots must be a folder or a list of folders, not {short_repr(given)}")
    folders = list(listed)
    if not folders or not all(isinstance(folder, str | os.PathLike) and folder != "" for folder in folders):
        raise ArgumentError(f"roots must name at least one folder and nothing else, not {short_repr(given)}")
    return tuple(map(Path, folders))


def from_skills(
    *,
    name: str = "skills",
    roots: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    filter: Mapping[str, Any] | None = None,
    fetcher: Fetcher | None = None,
    strategy: IndexingStrategy | None = None,
    embedder: str | Embedder = "default",
    edge_extractor: EdgeExtractor | None = None,
) -> CorpusSource:
    """Make a source of agent skills: every SKILL.md, in any case of letters, at any depth below some folders.

    A skill's id is the `name` in its frontmatter, else its folder's name. The next skill of the same name, folder by
    folder and in order of path, is `name@parent`, then `name@` its folder relative to its root, then `name@` its file.
    `parent` is what a skill belongs to, a plugin or a project: the next folder above its own that is neither hidden
    nor called `skills`. A file that is reached twice counts once; links to folders
    are not followed, and one to a skill is a problem with `lost=False`.

    Metadata are the frontmatter's fields, JSON-clean and without the description, and over them `name`, `parent`,
    `skill_path` and `base_path`, the file and its folder. Raw values are mappings of `name`, `description`, `parent`,
    and of `body` where something else than `Skill()` may read it: else a change of the body indexes nothing again.

    Where the frontmatter is missing or broken or has no description, the first paragraph stands in for it, else the
    first heading, and a problem with `lost=False` says so. A file without any text, or one that cannot be read, is a
    problem named after its folder.

    Args:
        name: Letters, digits and `._-`; the default name of the corpus.
        roots: One folder or several; unless given, those of `SKILL_FOLDERS` that are there, all below the home folder.
        filter: Only skills whose metadata satisfy it; it changes no id.
        fetcher: Gives skills instead: mappings with `name`, `description` and, where known, `parent`, `skill_path` and
            `base_path`; all fields but description and body are metadata. A function, async or called in a worker
            thread; or its name as `"module:attribute"`, which is imported and called when the skills are read, so only
            names you trust.
        strategy: Decomposes the skills; `Skill()` unless given.
        embedder: An embedder, or the specification of one.
        edge_extractor: Finds the skills' links; `DependencyLinks()`, by `parent`, unless given.

    Raises:
        ArgumentError: `name`, `roots` or `fetcher` cannot be used, or both are given.
        FilterError: `filter` is malformed.
        SourceError: While iterating: a given folder is missing, there is no skill, the filter leaves none, or the
            fetcher fails.

    Example:
        >>> from_skills(roots=["skills", "vendored/skills"], filter={"license": "MIT"}).indexing_strategy
        Skill()
    """
    if roots is not None and fetcher is not None:
        raise ArgumentError("roots and fetcher cannot both give the skills: pass one of them")
    wanted = parse_filter(filter)
    # A body that nothing reads is left out, so that a change of it alone indexes nothing again.
    bodies = not (isinstance(strategy, Skill | None) and isinstance(edge_extractor, DependencyLinks | None))
    scope: _Folders | _Records
    if fetcher is None:
        scope = folders = _Folders(None if roots is None else _roots(roots), wanted, bodies)
        excluded = folders.excluded if wanted else None
    else:
        check_fetcher("fetcher", fetcher)
        scope, excluded = _Records(Fetched(fetcher), wanted, bodies, name), None
    return CorpusSource(
        name,
        scope.pages,
        strategy or Skill(),
        embedder=embedder,
        edge_extractor=edge_extractor or DependencyLinks(),
        excluded=excluded,
    )
