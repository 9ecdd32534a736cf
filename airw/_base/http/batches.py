"""Texts cut into requests."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from airw._base.http.calls import Server

_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts for one request, and the position of the first among all."""

    start: int
    texts: list[str]

    def halves(self) -> "tuple[Batch, Batch]":
        """Cut it in two."""
        middle = len(self.texts) // 2
        return Batch(self.start, self.texts[:middle]), Batch(self.start + middle, self.texts[middle:])


def batches_of(texts: list[str], most: int, most_chars: int) -> Iterator[Batch]:
    """Cut the texts into batches, in their order, within both bounds."""
    start = chars = 0
    for at, text in enumerate(texts):
        if at > start and (at - start == most or chars + len(text) > most_chars):
            yield Batch(start, texts[start:at])
            start, chars = at, 0
        chars += len(text)
    yield Batch(start, texts[start:])


def body_of(payload: Callable[[list[str]], Mapping[str, object]], server: Server, batch: Batch) -> bytes:
    """Write a request in UTF-8, which has no place for half characters."""
    try:
        return json.dumps(payload(batch.texts), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        at = next(at for at, text in enumerate(batch.texts) if _HALF.search(text))
        raise server.error(
            f"{server.label} takes no half characters: text {batch.start + at} holds a lone surrogate"
        ) from error
