"""The SQL of an approximate vector index, which differs between servers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from airw._base.checks import check_count, check_strings
from airw._base.messages import short_repr
from airw.errors import ArgumentError

_INDEX = (
    "CREATE INDEX CONCURRENTLY {name} ON embedding USING hnsw"
    " ((value::{element}({width})) {element}_ip_ops) WITH (m = 16, ef_construction = 200)"
)
_DISTANCE = "({value}::{element}({width})) <#> {query}::{element}({width})"


@dataclass(frozen=True, kw_only=True)
class PostgresDialect:
    """The approximate vector index of a `PostgresStore`, as SQL and settings.

    The defaults are for PostgreSQL with pgvector. Results do not depend on the SQL, beyond the recall of the index:
    the store scores what the index finds again. Use the same dialect wherever a corpus is opened. The SQL is sent as it
    is, so take it from your own configuration only.

    For YugabyteDB, whose index method is `ybhnsw`, pass
    `element="vector"`, `max_width=2_000`, `settings={"hnsw.ef_search": "200"}` and
    `index="CREATE INDEX NONCONCURRENTLY {name} ON embedding USING ybhnsw ((value::vector({width})) vector_ip_ops)"`.
    This project has not tested these values on such a server.

    Args:
        exact_rows: Up to this number of records, all vectors are compared, and there is no index.
        element: The type of the vectors in the index, `{element}` in the SQL. `halfvec` takes half the space of
            `vector`, and is as good for finding candidates.
        max_width: The width of the widest vectors that the index takes: 4,000 for `halfvec`, 2,000 for `vector`.
            Wider vectors are always compared one by one.
        index: The statement that creates the index, with `{name}`, `{element}` and `{width}`; `None` for no index.
        distance: The SQL of the distance between the column `{value}` and the `{query}`, exactly as the index knows it.
        settings: Settings of each session, with which the index is searched.
        build_settings: Settings of the session that creates the index.

    Raises:
        ArgumentError: If a number is too small, or the SQL lacks a name in braces or has an unknown one.

    Example:
        >>> PostgresDialect(exact_rows=20_000).max_width
        4000
        >>> PostgresDialect(distance="{value} <#> $1")
        Traceback (most recent call last):
            ...
        airw.errors.ArgumentError: distance must contain {query}: '{value} <#> $1'
    """

    exact_rows: int = 50_000
    element: str = "halfvec"
    max_width: int = 4_000
    index: str | None = _INDEX
    distance: str = _DISTANCE
    settings: Mapping[str, str] = field(
        default_factory=lambda: {
            "hnsw.ef_search": "200",
            "hnsw.iterative_scan": "relaxed_order",
            "hnsw.scan_mem_multiplier": "4",
        }
    )
    build_settings: Mapping[str, str] = field(default_factory=lambda: {"maintenance_work_mem": "2GB"})

    def __post_init__(self) -> None:
        check_count("exact_rows", self.exact_rows)
        check_count("max_width", self.max_width, least=1)
        for name, settings in (("settings", self.settings), ("build_settings", self.build_settings)):
            check_strings(name, [text for item in settings.items() for text in item])
        for name, sql, needed in (("index", self.index, ["name"]), ("distance", self.distance, ["value", "query"])):
            if sql is None:
                continue
            try:
                sql.format(name="", element="", width="", value="", query="")
            except (KeyError, IndexError, ValueError, AttributeError) as error:
                known = "{name}, {element}, {width}, {value}, {query}"
                raise ArgumentError(f"{name} must be SQL with {known} in braces, not {short_repr(sql)}") from error
            for key in needed:
                if f"{{{key}}}" not in sql:
                    raise ArgumentError(f"{name} must contain {{{key}}}: {short_repr(sql)}")

    def __hash__(self) -> int:
        return hash((self.exact_rows, self.element, self.max_width, self.index, self.distance))

    def explain_exact(self, width: int) -> str | None:
        """Return why vectors of this width never have an index; `None` if they may have one.

        Example:
            >>> PostgresDialect().explain_exact(4_096)
            'vectors of 4096 numbers are wider than the 4000 of an index of halfvec, so all are compared'
        """
        if self.index is None:
            return "the dialect has no index, so all vectors are compared"
        if width > self.max_width:
            return (
                f"vectors of {width} numbers are wider than the {self.max_width} of an index of {self.element}, "
                "so all are compared"
            )
        return None
