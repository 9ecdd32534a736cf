"""The number of examples that Hypothesis draws."""

from hypothesis import settings


def examples(count: int) -> int:
    """Return `count` in the profile `full`; in `quick` a tenth of it, at least ten."""
    return max(min(count, 10), count * settings().max_examples // 100)
