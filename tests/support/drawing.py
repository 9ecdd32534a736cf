"""The number of examples that Hypothesis draws."""

from hypothesis import settings


def examples(count: int) -> int:
    """Return `count` in the profile `full`; in `quick` a twentieth of it, at least five."""
    return max(min(count, 5), count * settings().max_examples // 100)
