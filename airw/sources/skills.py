"""A source of agent skills: folders that contain a SKILL.md."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from airw._base.checks import check_flag
from airw._base.frontmatter import first_heading, read_frontmatter, split_frontmatter
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError, SourceError
from airw.indexing import Skill
from airw.indexing.notes import first_paragraph
from airw.links import PARENT, DependencyLinks, MarkdownLinks
from airw.links.fields import record_links
from airw.protocols import EdgeExtractor, Embedder, IndexingStrategy
from airw.sources.files import OTHER, Folder, to_printable
from airw.sources.records import Fetcher, RecordFetcher, check_fetcher
from airw.sources.source import PAGE, AsyncPages, CorpusSource, Item, Pages
from airw.values import Artifact, ItemProblem, Link
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

# Agents keep skills in hidden folders of projects and collections, too: a pattern that names these enters them.
_MORE_HOMES = {".github", ".opencode", ".system", ".curated", ".experimental"}
_HIDDEN_HOMES = sorted({part for folder in SKILL_FOLDERS for part in folder.split("/") if part[0] == "."} | _MORE_HOMES)
_SKILL_FILE = rf"(?:\A|/|{'|'.join(re.escape(f'{home}/') for home in _HIDDEN_HOMES)})(?i:skill\.md)\Z"

_WRITTEN_LINKS = MarkdownLinks(fields=("links", "requires", "skills"))
_TEXT_FIELDS = ("description", "body")
_MAX_PARAGRAPH_SEARCH = 20_000
_MAX_DESCRIPTION = 1_024  # characters, the limit of the SKILL.md format


@dataclass(frozen=True, slots=True)
class _SkillCandidate:
    """A skill or its problem, which gets the first free id of `possible_ids`.

    The file of a skill is `place`, below `root`. Its links refer to ids, or to absolute paths without the first slash.
    """

    possible_ids: tuple[str, ...]
    item: Item
    warnings: tuple[str, ...] = ()
    place: Path = Path()
    root: Path = Path()
    links: Sequence[Link] = ()


class _SkillFile(NamedTuple):
    """The content of a SKILL.md; name and description are empty if it has none."""

    name: str
    description: str
    fields: Mapping[str, Any]
    body: str
    warnings: Sequence[str]
    is_broken: bool


@dataclass(slots=True)
class _SkillReader:
    """Assigns ids to skills and applies the filter, for one iteration of a source."""

    filter: Filter | None
    used_ids: set[str] = field(default_factory=set)
    skill_count: int = 0
    left_out: list[str] = field(default_factory=list)

    def read(self, name: str, candidate: _SkillCandidate) -> Iterator[Item]:
        """Yield a skill under the id `name` and its problems, unless the filter leaves it out."""
        if isinstance(candidate.item, ItemProblem):
            yield replace(candidate.item, item=name)
            return
        self.skill_count += 1
        if not matches(self.filter, candidate.item.metadata):
            self.left_out.append(str(candidate.item.metadata.get("skill_path") or name))
            return
        yield from (ItemProblem(name, warning, lost=False) for warning in candidate.warnings)
        yield replace(candidate.item, id=name)

    def assign_id(self, possible_ids: Sequence[str]) -> str:
        """Return the first free id.

        Skills that the filter leaves out get one, too: otherwise a filter would change the ids of other skills.
        """
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
    hidden: bool

    def pages(self) -> Pages:
        """Yield the skills, folder by folder and in order of path."""
        yield from self._read(_SkillReader(self.filter))

    def find_excluded(self) -> Mapping[str, Sequence[str]]:
        """Return the paths that the filter or the folders leave out, by reason."""
        reader = _SkillReader(self.filter)
        for _ in self._read(reader) if self.filter else ():
            pass
        left_out = {"filter": reader.left_out} if reader.left_out else {}
        for folder in self._folders():
            for reason, paths in folder.find_excluded().items():
                if reason != OTHER:
                    left_out.setdefault(reason, []).extend(f"{folder.root}/{path}" for path in paths)
        return left_out

    def count_left_out(self) -> dict[str, int]:
        """Return how many files and folders are left out, by reason."""
        return dict(sum((Counter(folder.count_left_out()) for folder in self._folders()), Counter[str]()))

    def _read(self, reader: _SkillReader) -> Pages:
        real_paths = set[str]()
        candidates: list[_SkillCandidate] = []
        for folder in self._folders():
            root, listing = folder.root, folder.list_files()
            yield [*map(_shorten_name, listing.problems), *_report_links(root)]
            names = [name for name in listing.names if _add_real_path(root / name, real_paths)]
            for start in range(0, len(names), PAGE):
                candidates += [self._to_candidate(root, folder.read(name)) for name in names[start : start + PAGE]]
                yield []  # a build can be cancelled here
        if not real_paths:
            searched = ", ".join(repr(str(root)) for root in self.roots or SKILL_FOLDERS)
            advice = "" if self.roots else "; pass other folders as roots=[...]"
            raise SourceError(f"no SKILL.md below {searched}{advice}")
        # All ids are known before the first skill is returned, because its links may lead to any other.
        ids = [reader.assign_id(candidate.possible_ids) for candidate in candidates]
        targets = _find_targets(ids, candidates)
        for start in range(0, len(ids), PAGE):
            page = zip(ids[start : start + PAGE], candidates[start : start + PAGE], strict=True)
            yield [item for id, candidate in page for item in reader.read(id, _resolve_links(candidate, targets))]
        reader.check()

    def _folders(self) -> list[Folder]:
        return [Folder(root, _SKILL_FILE, hidden=self.hidden) for root in self._existing_roots()]

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
        written = _WRITTEN_LINKS.extract(Artifact(_path_key(path), item.raw), {})
        links = [*written.links, *_parent_link(file.fields)]
        # Frontmatter that cannot be read is reported already.
        problems = () if file.is_broken else written.problems
        warnings = tuple(f"{name}: {warning}" for warning in (*file.warnings, *problems))
        return _SkillCandidate(ids, Artifact("", raw, metadata), warnings, path, root, links)


def _parent_link(fields: Mapping[str, Any]) -> list[Link]:
    parent = fields.get("parent")
    return [Link(parent.strip(), PARENT, "typed")] if isinstance(parent, str) and parent.strip() else []


def _path_key(path: Path) -> str:
    """Return a path with slashes and without one at its beginning, as references have it."""
    return path.as_posix().strip("/")


def _find_targets(ids: Sequence[str], candidates: Sequence[_SkillCandidate]) -> dict[str, str]:
    """Return the ids of skills by what links may call them, in small letters."""
    targets: dict[str, str] = {}
    for id, candidate in zip(ids, candidates, strict=True):
        names = [id]
        if isinstance(candidate.item, Artifact):
            names += [candidate.item.raw["name"], _path_key(candidate.place), _path_key(candidate.place.parent)]
        for name in names:
            targets.setdefault(name.casefold(), id)
    return targets


def _resolve_links(candidate: _SkillCandidate, targets: Mapping[str, str]) -> _SkillCandidate:
    """Return the skill with the field `links` in its raw value: other skills, by type.

    A link to another file that exists is none. One that leads nowhere stays as it is written, below the root.
    """
    resolved: dict[str, list[str]] = {}
    for link in candidate.links:
        refs = [ref for ref in (link.target_ref, link.or_ref) if ref]
        known = next((targets[key] for ref in refs if (key := _without_marks(ref).casefold()) in targets), None)
        if known is None and _is_file(refs[0], candidate.place.parent):
            continue
        below_root = _without_marks(refs[0]).removeprefix(f"{_path_key(candidate.root.absolute())}/")
        chosen = resolved.setdefault(link.type, [])
        if (target := below_root if known is None else known) not in chosen:
            chosen.append(target)
    if not resolved or not isinstance(candidate.item, Artifact):
        return candidate
    return replace(candidate, item=replace(candidate.item, raw={**candidate.item.raw, "links": resolved}))


def _without_marks(ref: str) -> str:
    """Return the path or name of a reference, without `./` or `/` around it."""
    return ref.removeprefix("./").strip("/")


def _is_file(ref: str, folder: Path) -> bool:
    """Return whether a reference leads to a file or folder, beside a skill or elsewhere."""
    path = _without_marks(ref)
    places = (folder / path, folder.anchor + path)
    return any(os.path.lexists(f"{place}{suffix}") for place in places for suffix in ("", ".md"))


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
    return _SkillFile(name, description, other_fields, body, warnings, problem is not None)


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

        def read(record: object, position: int) -> Iterator[Item]:
            candidate = self._to_candidate(record, position)
            return reader.read(reader.assign_id(candidate.possible_ids), candidate)

        pages = self.fetcher.pages(read)
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
        return _SkillCandidate(ids, Artifact("", {**raw, **_read_body_links(record)}, metadata))


def _read_body_links(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field `links` of a record with the links of its body and `skills`.

    Only names of skills, and paths to a SKILL.md, can be understood: the folder of a skill has its name.
    """
    body, fields = record.get("body"), {"skills": record.get("skills")}
    place = Artifact("skill/SKILL.md", body if isinstance(body, str) else "")
    links: dict[str, list[Any]] = {}
    for link in _WRITTEN_LINKS.extract(place, fields).links:
        name = re.sub(r"(?i)/skill\.md\Z", "", _without_marks(link.target_ref))
        if "/" not in name and not name.endswith(".md"):
            links.setdefault(link.type, []).append(name)
    if links:
        for link in record_links(Artifact("", record)).links:
            target = [link.target_source, link.target_ref] if link.target_source else link.target_ref
            links.setdefault(link.type, []).append(target)
    return {"links": links} if links else {}


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
    hidden: bool = False,
) -> CorpusSource:
    """Return a source of agent skills: the files named SKILL.md below some folders.

    The files are found at any depth, and with any case of their name. A file that is reached twice counts once. Links
    to folders are not followed; a link to a skill is a problem with `lost=False`. What is hidden, named `node_modules`
    or named in a `.gitignore` is left out, as in `from_files`, but not the hidden folders of agents, such as `.claude`.

    The id of a skill is the `name` in its frontmatter, else the name of its folder. Further skills with the same name,
    folder by folder and in order of path, get the first of these ids that is free:

    - `name@parent`. The parent is the plugin or project of the skill: the next folder above its own that is neither
      hidden nor named `skills`;
    - `name@`, followed by its folder relative to the root;
    - `name@`, followed by its file relative to the root. If that is not free either, a number follows: `#2`.

    Metadata are the fields of the frontmatter, JSON-clean and without the description. They are overridden by `name`,
    `parent`, `skill_path` (the file) and `base_path` (its folder). Raw values are mappings of `name`, `description` and
    `parent`. They contain `body`, too, if another strategy than `Skill()`, or another extractor than
    `DependencyLinks()`, may read it. Otherwise a change of the body indexes nothing again, unless it changes a link.

    The links that somebody wrote become links between skills: links in the text to another SKILL.md or its folder,
    `[[name]]`, and the frontmatter fields `links`, `requires`, `skills` and `parent`. They are in the field `links` of
    the raw value, by type. Links to other files that exist are none.

    If the frontmatter is missing or broken, or has no description, the first paragraph is used instead, else the first
    heading, and there is a problem with `lost=False`. A file that has no text or cannot be read is a problem with the
    name of its folder.

    Args:
        name: The name of the source, and the default name of the corpus: letters, digits and `._-`.
        roots: A folder, or several. The default is those of `SKILL_FOLDERS` that exist, all below the home folder.
        filter: Return only skills whose metadata satisfy this filter. It changes no ids.
        fetcher: A function, sync or async, that returns skills, instead of folders; or a reference to it such as
            `"module:attribute"`. The skills are mappings with `name`, `description` and, if known, `parent`,
            `skill_path` and `base_path`. All fields except description and body become metadata. Their `parent` is a
            link to another skill if there is no `base_path`. A sync function runs in a worker thread. The module of a
            reference is imported when the skills are read, which runs its code: use only references that you trust.
        strategy: The strategy that splits the skills into surfaces; `Skill()` by default.
        embedder: An embedder, or the specification of one.
        edge_extractor: The extractor of the skills' links; `DependencyLinks()` by default.
        hidden: Also read hidden files and folders, those named `node_modules`, and what a `.gitignore` names.

    Raises:
        ArgumentError: If `name`, `roots`, `fetcher` or `hidden` is not valid, or `roots` and `fetcher` are both set.
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
    check_flag("hidden", hidden)
    scope: _SkillFolders | _SkillRecords
    excluded = left_out = None
    if fetcher is None:
        paths = None if roots is None else _check_roots(roots)
        scope = folders = _SkillFolders(paths, parsed_filter, keep_bodies, hidden)
        excluded, left_out = folders.find_excluded, folders.count_left_out
    else:
        check_fetcher("fetcher", fetcher)
        scope = _SkillRecords(RecordFetcher(fetcher), parsed_filter, keep_bodies, name)
    return CorpusSource(
        name,
        scope.pages,
        Skill() if strategy is None else strategy,
        embedder=embedder,
        edge_extractor=DependencyLinks() if edge_extractor is None else edge_extractor,
        excluded=excluded,
        left_out=left_out,
    )
