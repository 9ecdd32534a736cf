"""All errors that the library raises on purpose, in one tree.

```text
AirwError
├── ArgumentError (ValueError):                the value of a parameter cannot be used
│   └── ArgumentKindError (TypeError):         its type cannot be used, such as a string instead of a list
├── FilterError (ValueError):                  a filter is malformed or uses an unknown operator
├── SourceError:                               a source or one of its items cannot be read or indexed
│   └── PartitionsMissing:                     partitions must be ingested before the ingest can finish
├── EmbedderError:                             an embedder failed or returned unusable vectors
│   ├── EmbedderUnavailable (ValueError):      a package or model that an embedder needs is missing
│   └── EmbedderMismatch (ValueError):         a corpus was built with another embedder
├── StoreError:                                a store failed to read or write
│   ├── StoreBusy (TimeoutError):              another writer has locked the store
│   ├── StoreCorrupt:                          a file is damaged, foreign, or from a newer version
│   └── RemoteError:                           a server of corpora cannot be reached, refuses or answers nonsense
├── PolicyError:                               a walk policy broke its contract
├── WalkNotExtendable (RuntimeError):          a walk cannot go on from where it stands
├── RerankerError:                             a reranker failed or returned unusable scores
│   └── RerankerUnavailable (ValueError):      a package or model that a reranker needs is missing
├── ChatError:                                 a language model's server failed or returned no text
│   ├── ChatUnavailable (ValueError):          the model's name or its key is missing
│   └── ChatBudgetSpent:                       the token budget of a chat client is used up
├── DiscoveryError:                            every source of a discovery failed
├── CorpusNotFound (KeyError):                 there is no corpus with this name or path
├── NoLedgerEntry (KeyError):                  the artifact is not in the corpus
└── SeedNotFound (ValueError):                 the surface of a hit is not in the corpus
UnknownFieldWarning (UserWarning):             a search found nothing, and no record has a field of its filter
```

Most also inherit the builtin in parentheses, because callers of comparable libraries catch it. A message is one line:
it names the parameter or function and the value, and then what would do. If another exception caused the error,
`__cause__` is that exception.
"""

from collections.abc import Mapping, Sequence

__all__ = [
    "AirwError",
    "ArgumentError",
    "ArgumentKindError",
    "ChatBudgetSpent",
    "ChatError",
    "ChatUnavailable",
    "CorpusNotFound",
    "DiscoveryError",
    "EmbedderError",
    "EmbedderMismatch",
    "EmbedderUnavailable",
    "FilterError",
    "NoLedgerEntry",
    "PartitionsMissing",
    "PolicyError",
    "RemoteError",
    "RerankerError",
    "RerankerUnavailable",
    "SeedNotFound",
    "SourceError",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "UnknownFieldWarning",
    "WalkNotExtendable",
]


class AirwError(Exception):
    """Base class of every error that airw raises on purpose."""

    def __str__(self) -> str:
        """Return the message itself; `KeyError` would return its repr."""
        return str(self.args[0]) if self.args else type(self).__name__


class ArgumentError(AirwError, ValueError):
    """The value of a parameter cannot be used."""


class ArgumentKindError(ArgumentError, TypeError):
    """The type of a value cannot be used, such as a string instead of a list of strings."""


class FilterError(AirwError, ValueError):
    """A metadata filter is malformed or uses an unknown operator."""


class SourceError(AirwError):
    """A source or one of its items cannot be read or indexed."""


class PartitionsMissing(SourceError):
    """An ingest cannot finish before all its partitions are ingested.

    `partitions` contains the numbers of the partitions that must be ingested, some of them again.
    """

    def __init__(self, message: str, partitions: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.partitions: tuple[int, ...] = tuple(partitions)


class EmbedderError(AirwError):
    """An embedder failed or returned vectors that cannot be used.

    `refused` maps the position of each text that is the reason to what is wrong with it. It is empty if no text is.
    With it, a build names the artifact, and leaves out only that one if `on_error="skip"`.
    """

    def __init__(self, message: str, refused: Mapping[int, str] | None = None) -> None:
        super().__init__(message)
        self.refused: dict[int, str] = dict(refused or {})


class EmbedderUnavailable(EmbedderError, ValueError):
    """A package or a model that an embedder needs is missing, or not allowed."""


class EmbedderMismatch(EmbedderError, ValueError):
    """A corpus was built with another embedder than the one passed."""


class StoreError(AirwError):
    """A store failed to read or write."""


class StoreBusy(StoreError, TimeoutError):
    """Another writer locked the store for longer than airw waits."""


class StoreCorrupt(StoreError):
    """The file of a store is damaged, is not a corpus, or was written by a newer version."""


class RemoteError(StoreError):
    """A server of corpora cannot be reached, refuses, or its answer cannot be used."""


class PolicyError(AirwError):
    """A walk policy broke its contract with the walk."""


class WalkNotExtendable(AirwError, RuntimeError):
    """A walk cannot go on from where it stands; another walk with larger limits can."""


class RerankerError(AirwError):
    """A reranker failed or returned scores that cannot be used."""


class RerankerUnavailable(RerankerError, ValueError):
    """A package or a model that a reranker needs is missing."""


class ChatError(AirwError):
    """A language model's server cannot be reached, refuses, or returns no text."""


class ChatUnavailable(ChatError, ValueError):
    """The name or the key of a language model is missing."""


class ChatBudgetSpent(ChatError):
    """The token budget of a chat client is used up, or too small for the next request."""


class DiscoveryError(AirwError):
    """Every source of a discovery failed.

    `causes` maps the name of each source to the exception it raised; `__cause__` groups all of them.
    """

    def __init__(self, message: str, causes: Mapping[str, Exception] | None = None) -> None:
        super().__init__(message)
        self.causes: dict[str, Exception] = dict(causes or {})


class CorpusNotFound(AirwError, KeyError):
    """There is no corpus with this name or at this path."""


class NoLedgerEntry(AirwError, KeyError):
    """A requested artifact is not in the corpus."""


class SeedNotFound(AirwError, ValueError):
    """The surface of a hit is not in the corpus.

    Either the corpus was rebuilt after the hit was found, or the hit is from another corpus.
    """


class UnknownFieldWarning(UserWarning):
    """A search found nothing, and its filter contains a field that no record has."""
