"""Writes of artifacts with links of any kind, for tests of several stores."""

from dataclasses import replace

from hypothesis import strategies as st

from airw.testing.changes import put
from airw.values import Extraction, Link

NAMES = ["a", "b", "c"]
REFS = [*NAMES, "T", "U", "t", "A"]
TYPES = ["r", "q"]
LINKS = st.builds(
    Link,
    st.sampled_from(REFS),
    st.sampled_from(TYPES),
    st.sampled_from(["typed", "inline"]),
    st.sampled_from([None, None, None, "else"]),
    or_ref=st.none() | st.sampled_from(REFS),
    weight=st.sampled_from([1, 1, 0.5, 0.25]),
)
EXTRACTIONS = st.builds(
    Extraction,
    st.lists(LINKS, max_size=3),
    st.lists(st.lists(st.sampled_from(REFS), max_size=2), max_size=3),
    fold_case=st.booleans(),
)
STEPS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(NAMES), EXTRACTIONS, max_size=3), st.lists(st.sampled_from(NAMES), max_size=2)
    ),
    min_size=1,
    max_size=6,
)


def changes(extractions):
    return [replace(put(name), extraction=each) for name, each in extractions.items()]
