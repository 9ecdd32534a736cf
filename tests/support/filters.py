"""Metadata and filters of every kind, for property-based tests."""

from hypothesis import strategies as st

from airw.values.filters import And, Compare, Not, Or

KEYS = st.sampled_from(
    ["a", "b", "a.b", "b.a", "", ".", "a.", "0", "$", "$a", 'q"', "q'", "\\", "é", "🤖", "\0", "a[0]"]
)
MOMENTS = [
    *("2024-01-05T10:00:00Z", "2024-01-05T12:00:00+02:00", "2024-01-05 10:00+00", "2024-01-05t10:00:00.000z"),
    *("2024-01-05T10:00:00.5Z", "2024-01-05T11:00:00+02:00", "2024-01-05T10:00:00", "2024-01-05"),
    *("2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z", "2024-02-30T00:00:00Z", "2024-01-05T24:00:00Z"),
    *("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59.999999-12:00", "1900-02-29T00:00:00Z", "2000-02-29T00:00:00Z"),
    *("2024-01-05T10:00:00Z\n", "0000-01-05T10:00:00Z", "2024-01-05T10:00:00+16:00", "2024-01-05T10:00:00-0830"),
]
"""Dates with a time and a zone, and texts that only look like one."""
STRINGS = [
    *MOMENTS,
    "",
    "a",
    "ab",
    "b",
    "a.b",
    'say "a"',
    '"',
    "a\\b",
    "\\",
    "a\nb",
    "n",
    "a\0b",
    "a\0",
    "\\u0000",
    "é",
    "🤖",
    "1",
]
TEXTS = st.sampled_from([*STRINGS, "null", "true"])
EDGES = [
    *(0, 0.0, -0.0, 1, 1.0, -1, 0.1, 0.1 + 0.2, 0.3),
    *(2**53, 2.0**53, 2**53 + 1, 2**53 + 2.0),
    *(2**63 - 1, 2**63, 2.0**63, -(2**63), -(2**63) - 1, -(2.0**63), 2**64, 2**64 + 1, 2.0**64),
    *(10**22, 1e22, 10**400, -(10**400), 1e300, 5e-324),
]
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.one_of(st.sampled_from(EDGES), st.integers(-3, 3), FINITE)
COMPARISONS = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS, st.text(max_size=3))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
METADATA = st.dictionaries(KEYS, VALUES, max_size=5)
PATHS = st.one_of(KEYS, st.lists(KEYS, min_size=2, max_size=3).map(".".join))
OPERANDS = st.one_of(SCALARS, VALUES)
LEAVES = st.one_of(
    st.builds(Compare, PATHS, st.sampled_from(["$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$contains"]), OPERANDS),
    st.builds(Compare, PATHS, st.sampled_from(["$in", "$nin"]), st.lists(OPERANDS, max_size=4)),
    st.builds(Compare, PATHS, st.just("$exists"), st.booleans()),
)
FILTERS = st.recursive(
    LEAVES.filter(lambda leaf: not leaf.path.startswith("$")),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: And(tuple(parts)))
        | st.lists(inner, max_size=3).map(lambda parts: Or(tuple(parts)))
        | inner.map(Not)
    ),
    max_leaves=6,
)
