"""How many examples Hypothesis draws."""

from hypothesis import settings


def examples(count: int) -> int:
    """Return `count` under the profile `full`, and a share of it under profiles that draw less than 100."""
    return max(1, count * settings().max_examples // 100)
