"""A source of agent skills: folders that contain a SKILL.md."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from airw._base.frontmatter import first_heading, read_frontmatter, split_frontmatter
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError, SourceError
from airw.indexing import Skill
from airw.indexing.notes import first_paragraph
from airw.links import DependencyLinks
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.files import Folder, to_printable
from airw.sources.records import Fetcher, RecordFetcher, check_fetcher
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
"""The folders where agents keep the skills of their user, plugins last. Skills of a project are in the project."""

_TEXT_FIELDS = ("description", "body")
_MAX_PARAGRAPH_SEARCH = 20_000
_MAX_DESCRIPTION = 1_024  # characters, the limit of the SKILL.md format


@dataclass(frozen=True, slots=True)
class _SkillCandidate:
    """A skill or its problem, which gets the first free id of `possible_ids`."""

    possible_ids: tuple[str, ...]
    item: Item
    warnings: tuple[str, ...] = ()


class _SkillFile(NamedTuple):
    """The content of a SKILL.md; name and description are empty if it has none."""

    name: str
    description: str
    fields: Mapping[str, Any]
    body: str
    warnings: Sequence[str]


@dataclass(slots=True)
class _SkillReader:
    """Assigns ids to skills and applies the filter, for one iteration of a source."""

    filter: Filter | None
    used_ids: set[str] = field(default_factory=set)
    skill_count: int = 0
    left_out: list[str] = field(default_factory=list)

    def read(self, candidate: _SkillCandidate) -> Iterator[Item]:
        """Yield a skill with its id and its problems, unless the filter leaves it out."""
        # Skills that the filter leaves out get an id, too: otherwise a filter would change the ids of other skills.
        name = self._assign_id(candidate.possible_ids)
        if isinstance(candidate.item, ItemProblem):
            yield replace(candidate.item, item=name)
            return
        self.skill_count += 1
        if not matches(self.filter, candidate.item.metadata):
            self.left_out.append(str(candidate.item.metadata.get("skill_path") or name))
            return
        yield from (ItemProblem(name, warning, lost=False) for warning in candidate.warnings)
        yield replace(candidate.item, id=name)

    def _assign_id(self, possible_ids: Sequence[str]) -> str:
        numbered_ids = (f"{possible_ids[-1]}#{number}" for number in range(2, len(self.used_ids) + 3))
        name = next(candidate for candidate in (*possible_ids, *numbered_ids) if candidate not in self.used_ids)
        self.used_ids.add(name)
        return name

    def check(self) -> None:
        """Raise an error if the filter left out all skills."""
        if self.skill_count and self.skill_count == len(self.left_out):
            raise SourceError(f"filter matches none of the {self.skill_count} skills; change or remove it")


@dataclass(frozen=True, slots=True)
class _SkillFolders:
    """The skills below several folders."""

    roots: tuple[Path, ...] | None
    filter: Filter | None
    keep_bodies: bool

    def pages(self) -> Pages:
        """Yield the skills, folder by folder and in order of path."""
        yield from self._read(_SkillReader(self.filter))

    def find_excluded(self) -> Mapping[str, Sequence[str]]:
        """Read all skills, and return the paths of those that the filter leaves out."""
        reader = _SkillReader(self.filter)
        for _ in self._read(reader):
            pass
        return {"filter": reader.left_out} if reader.left_out else {}

    def _read(self, reader: _SkillReader) -> Pages:
        real_paths = set[str]()
        for root in self._existing_roots():
            folder = Folder(root)
            names, problems = folder.list_files()
            yield [*(_shorten_name(item) for item in problems if isinstance(item, ItemProblem)), *_report_links(root)]
            new_names = [name for name in names if _is_skill(name) and _add_real_path(root / name, real_paths)]
            for start in range(0, len(new_names), PAGE):
                page = [self._to_candidate(root, folder.read(name)) for name in new_names[start : start + PAGE]]
                yield [item for candidate in page for item in reader.read(candidate)]
        if not real_paths:
            searched = ", ".join(repr(str(root)) for root in self.roots or SKILL_FOLDERS)
            advice = "" if self.roots else "; pass other folders as roots=[...]"
            raise SourceError(f"no SKILL.md below {searched}{advice}")
        reader.check()

    def _existing_roots(self) -> list[Path]:
        # A folder that the caller names must exist. Of the default folders, only some do.
        if self.roots is not None:
            return [root.expanduser() for root in self.roots]
        return [folder for folder in (Path(default).expanduser() for default in SKILL_FOLDERS) if folder.is_dir()]

    def _to_candidate(self, root: Path, item: Item) -> _SkillCandidate:
        name = item.item if isinstance(item, ItemProblem) else item.id
        path = Path(os.path.abspath(root / name))  # noqa: PTH100 - `resolve` would follow links
        if isinstance(item, ItemProblem):
            # Most skills have the name of their folder. With that id, the problem protects a skill indexed before.
            ids = _possible_ids(path.parent.name, path, root)
            return _SkillCandidate(ids, replace(item, reason=f"{name}: {item.reason}"))
        file = _parse_skill(item.raw)
        identity = {"name": file.name or path.parent.name, "parent": _parent_name(path.parent)}
        ids = _possible_ids(identity["name"], path, root)
        if not file.name and not file.description:
            reason = "; ".join([*file.warnings, "there is no text to index; add a description"])
            return _SkillCandidate(ids, ItemProblem("", f"{name}: {reason}"))
        raw = {**identity, "description": file.description, **({"body": file.body} if self.keep_bodies else {})}
        metadata = {**file.fields, **identity, "skill_path": str(path), "base_path": str(path.parent)}
        warnings = tuple(f"{name}: {warning}" for warning in file.warnings)
        return _SkillCandidate(ids, Artifact("", raw, metadata), warnings)


def _report_links(root: Path) -> Iterator[ItemProblem]:
    """Yield a problem for each link to a skill, because users may collect skills by links."""
    for folder in sorted(root.iterdir()):
        files = (os.path.isfile(folder / name) for name in ("SKILL.md", "skill.md"))  # noqa: PTH113 - a Path's may raise
        if folder.is_symlink() and any(files):
            reason = f"a link to {os.path.realpath(folder)!r}, which is not followed; add that folder to roots"
            yield ItemProblem(to_printable(folder.name), reason, lost=False)


def _shorten_name(problem: ItemProblem) -> ItemProblem:
    # A folder that cannot be listed may be that of a skill indexed before: with its name as id, the skill is kept.
    return replace(problem, item=problem.item.rpartition("/")[2], reason=f"{problem.item}: {problem.reason}")


def _is_skill(name: str) -> bool:
    return name.rpartition("/")[2].lower() == "skill.md"


def _add_real_path(path: Path, real_paths: set[str]) -> bool:
    """Add a file, and return True if it is new: roots may contain one another, or be links."""
    real_path = os.path.realpath(path)
    is_new = real_path not in real_paths
    real_paths.add(real_path)
    return is_new


def _parse_skill(text: str) -> _SkillFile:
    front = read_frontmatter(text)
    fields, problem = front.fields, front.problem
    body = text[split_frontmatter(text)[1] :]
    warnings = [problem] if problem else []
    name = " ".join(_read_text(fields, "name", warnings).split())
    description = _read_text(fields, "description", warnings)
    if not description:
        paragraph = first_paragraph(body[:_MAX_PARAGRAPH_SEARCH]) or first_heading(body)
        description = paragraph[:_MAX_DESCRIPTION].rstrip()
        if not problem:
            warnings.append("has no description in its frontmatter; its first paragraph or heading is used instead")
    other_fields = {key: value for key, value in fields.items() if key != "description"}
    return _SkillFile(name, description, other_fields, body, warnings)


def _read_text(fields: Mapping[str, Any], key: str, warnings: list[str]) -> str:
    value = fields.get(key, "")
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        warnings.append(f"the {key} in its frontmatter must be text, not {short_repr(value)}")
        return ""
    return "" if value is None else str(value).strip()


def _possible_ids(name: str, path: Path, root: Path) -> tuple[str, ...]:
    """Return the possible ids of a skill, shortest first.

    Clients of a server see ids, so none contains more of a path than what is below the root.
    """
    parent = _parent_name(path.parent)
    file = Path(os.path.relpath(path, root))
    places = [parent, file.parent.as_posix(), file.as_posix()]
    return (name, *(f"{name}@{place}" for place in places if place))


def _parent_name(folder: Path) -> str:
    """Return the name of the next folder above a skill that is not hidden or `skills`."""
    names = (parent.name for parent in folder.parents)
    return next((name for name in names if name and not name.startswith(".") and name.lower() != "skills"), "")


@dataclass(frozen=True, slots=True)
class _SkillRecords:
    """The skills of a fetcher."""

    fetcher: RecordFetcher
    filter: Filter | None
    keep_bodies: bool
    source: str

    async def pages(self) -> AsyncPages:
        """Yield the skills in the order of the fetcher."""
        reader = _SkillReader(self.filter)
        pages = self.fetcher.pages(lambda record, position: reader.read(self._to_candidate(record, position)))
        try:
            async for page in pages:
                yield page
        finally:
            await pages.aclose()
        reader.check()

    def _to_candidate(self, record: object, position: int) -> _SkillCandidate:
        where = f"{self.source}[{position}]"
        if not isinstance(record, Mapping):
            reason = f"a skill must be a mapping of fields, not {short_repr(record)}"
            return _SkillCandidate((where,), ItemProblem("", reason))
        name, description = record.get("name"), record.get("description")
        if not isinstance(name, str) or not name.strip():
            reason = f"a skill needs a name, a string that is not blank; {where} has {short_repr(name)}"
            return _SkillCandidate((where,), ItemProblem("", reason))
        texts = [value for key in ("parent", "skill_path") if isinstance(value := record.get(key), str) and value]
        # Clients of a server see ids, so an absolute path cannot be part of one.
        places = [text for text in texts if not (PurePosixPath(text).root or PureWindowsPath(text).anchor)]
        ids = (name, *(f"{name}@{place}" for place in places))
        if not isinstance(description, str | None):
            reason = f"the description must be a string, not {short_repr(description)}"
            return _SkillCandidate(ids, ItemProblem("", reason))
        try:
            fields = json_clean(record)
        except RecursionError:
            return _SkillCandidate(ids, ItemProblem("", "its fields contain themselves or nest too deeply"))
        metadata = {key: value for key, value in fields.items() if key not in _TEXT_FIELDS}
        raw = {key: value for key, value in record.items() if self.keep_bodies or key != "body"}
        return _SkillCandidate(ids, Artifact("", raw, metadata))


def _check_roots(roots: object) -> tuple[Path, ...]:
    items = [roots] if isinstance(roots, str | os.PathLike) else roots
    if not isinstance(items, Iterable) or isinstance(items, bytes):
        raise ArgumentKindError(f"roots must be a folder or a list of folders, not {short_repr(roots)}")
    folders = list(items)
    if not folders or not all(isinstance(folder, str | os.PathLike) and folder != "" for folder in folders):
        raise ArgumentError(f"roots must contain at least one folder and nothing else, not {short_repr(roots)}")
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
    """Return a source of agent skills: the files named SKILL.md below some folders.

    The files are found at any depth, and with any case of their name. A file that is reached twice counts once. Links
    to folders are not followed; a link to a skill is a problem with `lost=False`.

    The id of a skill is the `name` in its frontmatter, else the name of its folder. Further skills with the same name,
    folder by folder and in order of path, get the first of these ids that is free:

    - `name@parent`. The parent is the plugin or project of the skill: the next folder above its own that is neither
      hidden nor named `skills`;
    - `name@`, followed by its folder relative to the root;
    - `name@`, followed by its file relative to the root. If that is not free either, a number follows: `#2`.

    Metadata are the fields of the frontmatter, JSON-clean and without the description. They are overridden by `name`,
    `parent`, `skill_path` (the file) and `base_path` (its folder). Raw values are mappings of `name`, `description` and
    `parent`. They contain `body`, too, if another strategy than `Skill()`, or another extractor than
    `DependencyLinks()`, may read it. Otherwise a change of the body alone indexes nothing again.

    If the frontmatter is missing or broken, or has no description, the first paragraph is used instead, else the first
    heading, and there is a problem with `lost=False`. A file that has no text or cannot be read is a problem with the
    name of its folder.

    Args:
        name: The name of the source, and the default name of the corpus: letters, digits and `._-`.
        roots: A folder, or several. The default is those of `SKILL_FOLDERS` that exist, all below the home folder.
        filter: Return only skills whose metadata satisfy this filter. It changes no ids.
        fetcher: A function, sync or async, that returns skills, instead of folders; or a reference to it such as
            `"module:attribute"`. The skills are mappings with `name`, `description` and, if known, `parent`,
            `skill_path` and `base_path`. All fields except description and body become metadata. A sync function runs
            in a worker thread. The module of a reference is imported when the skills are read, which runs its code:
            use only references that you trust.
        strategy: The strategy that splits the skills into surfaces; `Skill()` by default.
        embedder: An embedder, or the specification of one.
        edge_extractor: The extractor of the skills' links; by default `DependencyLinks()`, which reads `parent`.

    Raises:
        ArgumentError: If `name`, `roots` or `fetcher` is not valid, or `roots` and `fetcher` are both set.
        FilterError: If `filter` is not valid.
        SourceError: During iteration, if a folder of `roots` is missing, there is no skill, the filter matches none, or
            the fetcher fails.

    Example:
        >>> from_skills(roots=["skills", "vendored/skills"], filter={"license": "MIT"}).indexing_strategy
        Skill()
    """
    if roots is not None and fetcher is not None:
        raise ArgumentError("roots and fetcher are both set; pass only one of them")
    parsed_filter = parse_filter(filter)
    # The default strategy and extractor do not read bodies. Without bodies, a change of one indexes nothing again.
    keep_bodies = not (isinstance(strategy, Skill | None) and isinstance(edge_extractor, DependencyLinks | None))
    scope: _SkillFolders | _SkillRecords
    if fetcher is None:
        scope = folders = _SkillFolders(None if roots is None else _check_roots(roots), parsed_filter, keep_bodies)
        excluded = folders.find_excluded if parsed_filter else None
    else:
        check_fetcher("fetcher", fetcher)
        scope = _SkillRecords(RecordFetcher(fetcher), parsed_filter, keep_bodies, name)
        excluded = None
    return CorpusSource(
        name,
        scope.pages,
        Skill() if strategy is None else strategy,
        embedder=embedder,
        edge_extractor=DependencyLinks() if edge_extractor is None else edge_extractor,
        excluded=excluded,
    )
