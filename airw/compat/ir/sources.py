"""Sources: a mapping of ids to raw values, with its indexing settings."""

import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Final, Self

from airw import sources
from airw._base.messages import short_repr
from airw.compat._missing_names import explain_missing
from airw.compat._sync import run
from airw.compat.ir.base import Artifact
from airw.compat.ir.embed import embedder_of
from airw.compat.ir.strategy import WholeText, to_airw_strategy
from airw.errors import ArgumentError, ArgumentKindError

_Path = str | os.PathLike[str]


def content_hash_signal(artifact_id: str, raw: Any) -> str:
    """Return a hash of the content of an artifact that is indexed.

    Example:
        >>> content_hash_signal("a", {"x": 1, "y": 2}) == content_hash_signal("b", {"y": 2, "x": 1})
        True
    """
    return sources.content_hash(Artifact(artifact_id, raw))


class Scope(Mapping[str, Any]):
    """The artifacts of a source as a mapping of ids to raw values, read on first access."""

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
        """Return the metadata of an artifact; empty if the source does not have it."""
        artifact = self._read().get(artifact_id)
        return {} if artifact is None else dict(artifact.metadata)


@dataclass
class CorpusSource:
    """A named mapping of ids to raw values, with its indexing settings.

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
        """Return the pairs of id and raw value."""
        return self.scope.items()

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], *, name: str, strategy: Any = None, **options: Any) -> Self:
        """Make a source from a mapping."""
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
        """Make a source from the records of a function; `metadata_keys` are the filter fields."""
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
        """Make a source from the text files below a folder."""
        source = sources.from_files(os.path.expanduser(root), name=name, pattern=pattern, exclude=exclude)  # noqa: PTH111
        return cls._of(source, strategy, options)

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
        """Make a source from the reports of projects."""
        excluded = frozenset(exclude_dirs or ())
        exclude = (lambda path: not excluded.isdisjoint(PurePath(path).parts)) if excluded else None
        source = sources.from_md_reports(name=name, projects_root=projects_root, recursive=recursive, exclude=exclude)
        return cls._of(source, strategy, options)

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
        """Make a source from the skills of agents."""
        return cls._of(sources.from_skills(name=name, filter=filter, fetcher=fetcher), strategy, options)

    @classmethod
    def from_mcp_tools(cls, tools: Any, *, name: str = "tools", strategy: Any = None, **options: Any) -> Self:
        """Make a source from a catalogue of tools."""
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
        """Make a source from installed packages, or from the packages in a manifest.

        Raises:
            ArgumentError: If `repos` is given, which airw does not have.
        """
        if repos is not None:
            raise ArgumentError(
                "repos is not available: call airw.from_packages(root=…) with a folder of projects instead"
            )
        source = sources.from_packages(
            name=name, manifest=manifest, readme_chars=readme_chars, exclude=tuple(exclude or ())
        )
        return cls._of(source, strategy, options)

    @classmethod
    def from_claude_sessions(cls, **_: Any) -> Self:
        """Raise an error that names the replacement.

        Raises:
            ArgumentError: Always.
        """
        raise ArgumentError(
            "from_claude_sessions is not available: pass turns as records, CorpusSource.from_records(name=…, fetcher=…)"
        )

    @classmethod
    def _of(cls, source: sources.CorpusSource, strategy: Any, options: dict[str, Any]) -> Self:
        scope = Scope(source)
        settings = {"metadata_of": scope.metadata_of, "embedder": source.embedder} | options
        return cls(source.name, scope, strategy or source.indexing_strategy, **settings)


def as_source(source: Any, *, embed: bool) -> Any:
    """Return a source of `ir` as one of airw; a source of airw is returned unchanged.

    Args:
        source: The source.
        embed: Whether to use the embedder of the source.
    """
    if not isinstance(source, CorpusSource):
        if not callable(getattr(source, "items", None)) or isinstance(source, Mapping):
            example = "CorpusSource.from_mapping(mapping, name=…)"
            raise ArgumentKindError(f"source must be a CorpusSource, such as {example}, not {short_repr(source)}")
        return source
    settings: dict[str, Any] = {"indexing_strategy": to_airw_strategy(source.indexing_strategy)}
    if embed:
        settings["embedder"] = embedder_of(source.embedder)
    if source.change_signal is not content_hash_signal:
        signal = source.change_signal
        settings["change_signal"] = lambda artifact: signal(artifact.id, artifact.raw)
    if not isinstance(source.scope, Scope):
        return sources.CorpusSource(source.name, source.scope, metadata_of=source.metadata_of, **settings)
    if source.metadata_of != source.scope.metadata_of:
        settings["metadata_of"] = source.metadata_of
    return dataclasses.replace(source.scope.source, name=source.name, **settings)


_READ_BY_AIRW = "airw.sources finds the files itself, see from_md_reports and from_packages"

__getattr__: Final = explain_missing(
    __name__,
    {
        "DFLT_CHUNK_MAX_TOKENS": "use Chunked(chunk_size=…), or Chunked(max_tokens=…, tokenizer=…) for tokens",
        "DFLT_SESSIONS_SINCE_DAYS": "pass turns as records: CorpusSource.from_records(name=…, fetcher=…)",
        "resolve_fetcher": "call from_records(name=…, fetcher='module:function'), which imports the function itself",
        "mcp_tool_record": "call CorpusSource.from_mcp_tools(tools), which accepts tools in any form",
        "mcp_tool_signal": "call CorpusSource.from_mcp_tools(tools), which notices a changed schema",
        "MCP_TOOL_PARAM_KEYS": "call CorpusSource.from_mcp_tools(tools), which accepts tools in any form",
        "ALLCAPS_MD": _READ_BY_AIRW,
        "DFLT_EXCLUDE_DIRS": _READ_BY_AIRW,
        "REPORT_DOC_GLOBS": _READ_BY_AIRW,
        "REPO_DOC_SUBDIRS": _READ_BY_AIRW,
        "report_exclude_reason": _READ_BY_AIRW,
        "iter_pocket_repos": _READ_BY_AIRW,
        "iter_report_doc_folders": _READ_BY_AIRW,
        "package_repo_dirs": _READ_BY_AIRW,
    },
)
