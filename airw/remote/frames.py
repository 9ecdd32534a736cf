"""Server-sent events: from the bytes of a stream to its frames."""

from typing import NamedTuple

from airw.protocols.wire import WireFault

_LARGEST_FRAME = 1 << 26  # bytes


class Frame(NamedTuple):
    """One event of a stream.

    Args:
        event: Its kind.
        data: Its content.
    """

    event: str
    data: str


class FrameReader:
    r"""Reads the frames of a stream from its pieces, wherever these are cut.

    Example:
        >>> reader = FrameReader()
        >>> reader.feed(b": \n\nid: 1\nevent: hit\nda"), reader.feed(b"ta: {}\n\n")
        ([], [Frame(event='hit', data='{}')])
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._fields: dict[str, list[str]] = {}
        self._size = 0

    def feed(self, piece: bytes) -> list[Frame]:
        """Return the frames that end in the next piece.

        Raises:
            WireFault: If a frame is not UTF-8, or too long.
        """
        self._rest += piece
        self._size += len(piece)
        if self._size > _LARGEST_FRAME:
            raise WireFault(f"an event of its stream has more than {_LARGEST_FRAME:,} bytes")
        if b"\n" not in piece:
            return []
        *lines, rest = bytes(self._rest).split(b"\n")
        self._rest = bytearray(rest)
        frames = [frame for line in lines if (frame := self._read_line(line)) is not None]
        if frames or not self._fields:
            self._size = len(self._rest)
        return frames

    def _read_line(self, line: bytes) -> Frame | None:
        """Read a line; return the frame that it ends, if it ends one."""
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            raise WireFault("its stream is not UTF-8") from error
        if text:
            name, _, value = text.partition(":")
            if name in ("event", "data"):  # other lines are ids, and comments such as heartbeats
                self._fields.setdefault(name, []).append(value.removeprefix(" "))
            return None
        fields, self._fields = self._fields, {}
        return Frame(fields.get("event", ["message"])[-1], "\n".join(fields["data"])) if "data" in fields else None
