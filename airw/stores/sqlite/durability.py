"""What a write to a corpus file survives."""

from typing import Literal, TypeAlias

Durability: TypeAlias = Literal["normal", "full"]
"""What an acknowledged write survives: a kill of the process, or a power failure, too; see `SqliteStore`."""

DURABILITIES: tuple[Durability, ...] = ("normal", "full")
