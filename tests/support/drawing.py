"""How many examples Hypothesis draws."""

from hypothesis import settings


def examples(count: int) -> int:
    """Return `count` under the profile `full`, and a quarter of it, but not less than ten, under `quick`."""
    return max(min(count, 10), count * settings().max_examples // 100)
