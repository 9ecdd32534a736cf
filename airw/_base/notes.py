"""Notes on errors that other code has raised."""

from contextlib import suppress


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an error, whatever its class does with notes.

    An error whose `__notes__` is no list gets a new list. If it refuses even that, it stays without the note: the
    error itself matters more.

    Example:
        >>> error = ValueError("no number")
        >>> error.__notes__ = None
        >>> add_note(error, "for node 3")
        >>> error.__notes__
        ['for node 3']
    """
    with suppress(Exception):
        if not isinstance(getattr(error, "__notes__", []), list):
            error.__notes__ = []
        error.add_note(note)


def has_note(error: BaseException, start: str) -> bool:
    """Return whether an error has a note that begins with `start`.

    Example:
        >>> has_note(ValueError("no number"), "raised in")
        False
    """
    with suppress(Exception):
        return any(isinstance(note, str) and note.startswith(start) for note in error.__notes__)
    return False
