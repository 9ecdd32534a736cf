"""Test cases: queries with their right answers, and the files that store them."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self, cast

from airw._base.checks import check_kind, check_number, check_strings, check_text_query
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.evaluation._case_files import read_rows, write_rows


@dataclass(frozen=True, slots=True)
class DiscoveryCase:
    """A query and the artifacts that answer it.

    Args:
        query: The query.
        gold: The ids of the artifacts that answer it, in any order; a single string is one id. A mapping of ids to
            grades, as TREC and BEIR have them, means the ids with a grade above 0, all alike: a document of grade 0 was
            judged and is no answer. If there is no id, nothing in the corpus answers the query, and a search should
            abstain.
        corpus: The name of the corpus, for files with cases of several corpora.
        source_id: The artifact that the query was written from.
        metadata: Any other data about the case.

    Raises:
        ArgumentError: If the query is blank or not a text, `gold` contains something else than ids, or a grade is not
            a finite number.

    Example:
        >>> DiscoveryCase("rotate the signing keys", gold="keys.md").gold
        ('keys.md',)
        >>> DiscoveryCase("rotate the signing keys", gold={"keys.md": 2, "bread.md": 0}).gold
        ('keys.md',)
        >>> DiscoveryCase("who won the match?").gold_is_none
        True
    """

    query: str
    gold: tuple[str, ...] = ()
    corpus: str | None = None
    source_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the fields, and convert `gold` to a tuple."""
        check_text_query(self.query)
        given: Any = self.gold
        gold = (given,) if isinstance(given, str) else check_strings("gold", given)
        if isinstance(given, Mapping):
            gold = tuple(id for id in gold if check_number(f"the grade of {short_repr(id)} in gold", given[id]) > 0)
        object.__setattr__(self, "gold", gold)
        for name in ("corpus", "source_id"):
            value = getattr(self, name)
            check_kind(name, value, str | None, "be a string or None")
        check_kind("metadata", self.metadata, Mapping, "be a mapping")

    @property
    def gold_is_none(self) -> bool:
        """Return whether nothing answers the query."""
        return not self.gold

    def to_dict(self) -> dict[str, Any]:
        """Return the case as JSON values, without empty fields.

        Example:
            >>> DiscoveryCase("bread", ("b.md",)).to_dict()
            {'query': 'bread', 'gold': ['b.md']}
        """
        optional = {"corpus": self.corpus, "source_id": self.source_id, "metadata": json_clean(self.metadata) or None}
        present = {name: value for name, value in optional.items() if value is not None}
        return {"query": self.query, "gold": list(self.gold), **present}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make a case from the values of `to_dict`; `gold` may have all forms, or be missing.

        Raises:
            ArgumentError: If there is no query, or a field is unknown or has a wrong type. Unknown fields are not
                ignored, because a misspelt `gold` would turn the case into its opposite.

        Example:
            >>> DiscoveryCase.from_dict({"query": "bread", "gold": "b.md"})
            DiscoveryCase(query='bread', gold=('b.md',), corpus=None, source_id=None, metadata={})
        """
        field_names = [item.name for item in fields(cls)]
        if not isinstance(values, Mapping) or "query" not in values:
            raise ArgumentError(f"a case must be an object with a query, not {short_repr(values)}")
        if unknown := [name for name in values if name not in field_names]:
            raise ArgumentError(
                f"a case has no field {short_repr(unknown[0])}, only {', '.join(field_names)}; "
                "put other data into metadata"
            )
        given = {name: value for name, value in values.items() if name == "query" or value not in (None, "")}
        return cls(**given)


def save_cases(
    cases: Iterable[DiscoveryCase], path: str | os.PathLike[str], *, meta: Mapping[str, Any] | None = None
) -> None:
    """Write cases to a JSON Lines file, one case a line, and replace the file's content.

    Missing folders are made. This call blocks: use a worker thread in async code.

    Args:
        cases: The cases, written in this order.
        path: The file.
        meta: Data about the cases, such as their origin; written as a first line `{"__meta__": …}`.

    Raises:
        SourceError: If the file cannot be written.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_cases([DiscoveryCase("bread", ("b.md",))], Path(folder, "cases.jsonl"), meta={"corpus": "notes"})
        ...     print(Path(folder, "cases.jsonl").read_text(encoding="utf-8"), end="")
        {"__meta__": {"corpus": "notes"}}
        {"query": "bread", "gold": ["b.md"]}
    """
    write_rows((case.to_dict() for case in cases), path, meta)


def load_cases(path: str | os.PathLike[str]) -> list[DiscoveryCase]:
    """Read the cases of a JSON Lines file, in the order of its lines.

    Blank lines and the line `{"__meta__": …}` are skipped. This call blocks: use a worker thread in async code.

    Args:
        path: The file, in UTF-8.

    Raises:
        ArgumentError: If a line is not a case; the message names file and line.
        SourceError: If the file cannot be read.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "cases.jsonl")
        ...     _ = file.write_text('{"query": "bread", "gold": "b.md"}', encoding="utf-8")
        ...     [case.gold for case in load_cases(file)]
        [('b.md',)]
    """
    return read_rows(path, DiscoveryCase.from_dict)[1]


def read_case_meta(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the data in the first line of a file of cases; empty if there is none.

    This call blocks: use a worker thread in async code.

    Raises:
        SourceError: If the file cannot be read.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = f"{folder}/cases.jsonl"
        ...     save_cases([DiscoveryCase("bread", "b.md")], file, meta={"corpus": "notes"})
        ...     read_case_meta(file)
        {'corpus': 'notes'}
    """
    return read_rows(path, lambda _: None)[0]


def check_cases(cases: Iterable[object]) -> list[DiscoveryCase]:
    """Return the cases as a list if all are `DiscoveryCase` objects.

    Raises:
        ArgumentKindError: If one is not.
    """
    checked = list(cases)
    for case in checked:
        check_kind("cases", case, DiscoveryCase, "be DiscoveryCases, as load_cases returns them")
    return cast("list[DiscoveryCase]", checked)


def to_qrels(
    cases: Iterable[DiscoveryCase], *, grade: float = 1.0
) -> tuple[dict[str, str], dict[str, dict[str, float]]]:
    """Return the queries and the grades of the cases with an answer, each by a query id.

    Other tools for evaluation read this form. The id is `q` and the position of the case, with five digits.

    Args:
        cases: The cases.
        grade: The grade of every answer.

    Example:
        >>> to_qrels([DiscoveryCase("who won?"), DiscoveryCase("bread", "b.md")])
        ({'q00001': 'bread'}, {'q00001': {'b.md': 1.0}})
    """
    answered = {f"q{index:05d}": case for index, case in enumerate(check_cases(cases)) if not case.gold_is_none}
    queries = {id: case.query for id, case in answered.items()}
    return queries, {id: dict.fromkeys(case.gold, grade) for id, case in answered.items()}
