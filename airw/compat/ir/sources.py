"""Sources: a mapping of id to raw value, and how it is to be indexed."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Self

from airw import sources
from airw.compat._missing import missing
from airw.compat._sync import run
from airw.compat.ir.base import Artifact
from airw.compat.ir.embed import embedder_of
from airw.compat.ir.strategy import WholeText, plain
from airw.errors import ArgumentError, ArgumentKindError

_Path = str | os.PathLike[str]


def content_hash_signal(artifact_id: str, raw: Any) -> str:
    """Return a hash of what is indexed of an artifact.

    Example:
        >>> content_hash_signal("a", {"x": 1, "y": 2}) == content_hash_signal("b", {"y": 2, "x": 1})
        True
    """
    return sources.content_hash(Artifact(artifact_id, raw))


class Scope(Mapping[str, Any]):
    """What a source of airw gives as a mapping of id to raw value, read when it is first looked at."""

    def __init__(self, source: sources.CorpusSource) -> None:
        self.source = source
        self._artifacts: dict[str, Artifact] | None = None

    def _read(self) -> dict[str, Artifact]:
        if self._artifacts is None:

            async def read() -> dict[str, Artifact]:
                return {item.id: item async for item in self.source.items() if isinstance(item, Artifact)}

            self._artifacts = run(read)
        return self._artifacts

    def __getitem__(self, artifact_id: str) -> Any:
        return self._read()[artifact_id].raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def metadata_of(self, artifact_id: str, raw: Any) -> dict[str, Any]:
        """Return the metadata that the source knows of an artifact."""
        found = self._read().get(artifact_id)
        return {} if found is None else dict(found.metadata)


@dataclass
class CorpusSource:
    """A named mapping of id to raw value, and how it is to be indexed.

    Example:
        >>> source = CorpusSource.from_mapping({"a": "alpha"}, name="letters")
        >>> source.name, list(source.items())
        ('letters', [('a', 'alpha')])
    """

    name: str
    scope: Mapping[str, Any]
    indexing_strategy: Any = field(default_factory=WholeText)
    change_signal: Callable[[str, Any], str] = content_hash_signal
    embedder: Any = "default"
    metadata_of: Callable[[str, Any], Mapping[str, Any]] | None = None

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return the ids with their raw values."""
        return self.scope.items()

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], *, name: str, strategy: Any = None, **options: Any) -> Self:
        """Make a source of a mapping."""
        return cls(name, mapping, strategy or WholeText(), **options)

    @classmethod
    def from_records(
        cls,
        *,
        name: str,
        fetcher: Any,
        strategy: Any = None,
        metadata_keys: Iterable[str] | None = None,
        id_key: str = "id",
        text_key: str = "text",
        **options: Any,
    ) -> Self:
        """Make a source of the records that a function gives; `metadata_keys` are those to filter on."""
        return cls._of(
            sources.from_records(
                fetcher, name=name, id_key=id_key, text_key=text_key, metadata_keys=tuple(metadata_keys or ())
            ),
            strategy,
            options,
        )

    @classmethod
    def from_files(
        cls,
        root: _Path,
        *,
        name: str | None = None,
        pattern: str = r".*\.md$",
        exclude: Callable[[str], bool] | None = None,
        strategy: Any = None,
        **options: Any,
    ) -> Self:
        """Make a source of the text files below a folder."""
        made = sources.from_files(os.path.expanduser(root), name=name, pattern=pattern, exclude=exclude)  # noqa: PTH111
        return cls._of(made, strategy, options)

    @classmethod
    def from_md_reports(
        cls,
        *,
        name: str = "reports",
        projects_root: _Path | None = None,
        strategy: Any = None,
        recursive: bool = True,
        exclude_dirs: Iterable[str] | None = None,
        **options: Any,
    ) -> Self:
        """Make a source of the reports of projects."""
        shut = frozenset(exclude_dirs or ())
        exclude = (lambda path: not shut.isdisjoint(PurePath(path).parts)) if shut else None
        made = sources.from_md_reports(name=name, projects_root=projects_root, recursive=recursive, exclude=exclude)
        return cls._of(made, strategy, options)

    @classmethod
    def from_skills(
        cls,
        *,
        name: str = "skills",
        filter: Mapping[str, Any] | None = None,
        fetcher: Any = None,
        strategy: Any = None,
        **options: Any,
    ) -> Self:
        """Make a source of the skills of agents."""
        return cls._of(sources.from_skills(name=name, filter=filter, fetcher=fetcher), strategy, options)

    @classmethod
    def from_mcp_tools(cls, tools: Any, *, name: str = "tools", strategy: Any = None, **options: Any) -> Self:
        """Make a source of a catalogue of tools."""
        return cls._of(sources.from_mcp_tools(tools, name=name), strategy, options)

    @classmethod
    def from_packages(
        cls,
        *,
        name: str = "packages",
        manifest: _Path | None = None,
        repos: Any = None,
        exclude: Sequence[str] | None = None,
        readme_chars: int = 20000,
        strategy: Any = None,
        **options: Any,
    ) -> Self:
        """Make a source of packages: those installed, or those that a manifest lists.

        Raises:
            ArgumentError: `repos` is given, which airw has not.
        """
        if repos is not None:
            raise ArgumentError("repos is of ir: write airw.from_packages(root=…), a folder of projects, instead")
        made = sources.from_packages(
            name=name, manifest=manifest, readme_chars=readme_chars, exclude=tuple(exclude or ())
        )
        return cls._of(made, strategy, options)

    @classmethod
    def from_claude_sessions(cls, **_: Any) -> Self:
        """Raise an error that says what to write instead.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError(
            "airw does not read sessions: give turns as records, CorpusSource.from_records(name=…, fetcher=…)"
        )

    @classmethod
    def _of(cls, made: sources.CorpusSource, strategy: Any, options: dict[str, Any]) -> Self:
        scope = Scope(made)
        given = {"metadata_of": scope.metadata_of, "embedder": made.embedder} | options
        return cls(made.name, scope, strategy or made.indexing_strategy, **given)


def as_source(source: Any, *, embed: bool) -> Any:
    """Return a source of airw for one of `ir`; one of airw as it is.

    Args:
        source: The source.
        embed: Whether its own embedder is used.
    """
    if not isinstance(source, CorpusSource):
        if not callable(getattr(source, "items", None)) or isinstance(source, Mapping):
            raise ArgumentKindError("build takes a CorpusSource: CorpusSource.from_mapping(mapping, name=…) makes one")
        return source
    given: dict[str, Any] = {"indexing_strategy": plain(source.indexing_strategy)}
    if embed:
        given["embedder"] = embedder_of(source.embedder)
    if source.change_signal is not content_hash_signal:
        signal = source.change_signal
        given["change_signal"] = lambda artifact: signal(artifact.id, artifact.raw)
    if not isinstance(source.scope, Scope):
        return sources.CorpusSource(source.name, source.scope, metadata_of=source.metadata_of, **given)
    if source.metadata_of != source.scope.metadata_of:
        given["metadata_of"] = source.metadata_of
    return dataclasses.replace(source.scope.source, name=source.name, **given)


_FROM_AIRW = "airw.sources reads folders, projects and packages by itself: see from_md_reports and from_packages"

__getattr__ = missing(
    __name__,
    {
        "DFLT_CHUNK_MAX_TOKENS": "chunks are cut by characters, or by tokens with Chunked(max_tokens=…, tokenizer=…)",
        "DFLT_SESSIONS_SINCE_DAYS": "give turns as records: CorpusSource.from_records(name=…, fetcher=…)",
        "resolve_fetcher": "from_records(name=…, fetcher='module:function') imports it when the records are read",
        "mcp_tool_record": "CorpusSource.from_mcp_tools(tools) reads tools of any form",
        "mcp_tool_signal": "CorpusSource.from_mcp_tools(tools) notices a schema that changes",
        "MCP_TOOL_PARAM_KEYS": "CorpusSource.from_mcp_tools(tools) reads tools of any form",
        "ALLCAPS_MD": _FROM_AIRW,
        "DFLT_EXCLUDE_DIRS": _FROM_AIRW,
        "REPORT_DOC_GLOBS": _FROM_AIRW,
        "REPO_DOC_SUBDIRS": _FROM_AIRW,
        "report_exclude_reason": _FROM_AIRW,
        "iter_pocket_repos": _FROM_AIRW,
        "iter_report_doc_folders": _FROM_AIRW,
        "package_repo_dirs": _FROM_AIRW,
    },
)
