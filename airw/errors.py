"""Every error the library raises on purpose, in one tree.

```text
AirwError
├── ArgumentError      (ValueError)    a parameter's value cannot be used
│   └── ArgumentKindError   (TypeError)    it is of a kind that cannot be, such as a string for a list of them
├── FilterError        (ValueError)    a filter is malformed or uses an unknown operator
├── SourceError                        a source, or one item of it, cannot be read or indexed
│   └── PartitionsMissing                  an ingest in partitions cannot be finished yet
├── EmbedderError                      an embedder failed or answered with unusable vectors
│   ├── EmbedderUnavailable (ValueError)   what the embedder needs is not installed or not found
│   └── EmbedderMismatch    (ValueError)   a corpus was built with another embedder
├── StoreError                         a store failed
│   ├── StoreBusy           (TimeoutError) another writer holds the store
│   └── StoreCorrupt                   the file is damaged, or not ours, or from a newer version
├── PolicyError                        a walk policy broke its contract
├── RerankerError                      a reranker failed or answered with unusable scores
│   └── RerankerUnavailable (ValueError)   what the reranker needs is not installed or not found
├── ChatError                          a language model's server failed or answered with what is no text
│   ├── ChatUnavailable     (ValueError)   no model is named, or its key is missing
│   └── ChatBudgetSpent                    the tokens that a client may use are used up
├── DiscoveryError                     no source of a discovery answered
├── CorpusNotFound     (KeyError)      no corpus of that name or path
├── NoLedgerEntry      (KeyError)      a corpus does not hold that artifact
└── SeedNotFound       (ValueError)    a corpus does not hold the surface that a hit names
```

Each also inherits the builtin that callers of comparable libraries catch. A message is one line: what was given, and
what would do. The original exception, where there is one, stays as `__cause__`.
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
    "RerankerError",
    "RerankerUnavailable",
    "SeedNotFound",
    "SourceError",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
]


class AirwError(Exception):
    """Base of every error that airw raises on purpose."""

    def __str__(self) -> str:
        """Give the message itself; `KeyError` would print its repr."""
        return str(self.args[0]) if self.args else type(self).__name__


class ArgumentError(AirwError, ValueError):
    """A parameter's value cannot be used."""


class ArgumentKindError(ArgumentError, TypeError):
    """A parameter's value is of a kind that cannot be used, such as a string where a list of strings is meant."""


class FilterError(AirwError, ValueError):
    """A metadata filter is malformed or uses an operator that does not exist."""


class SourceError(AirwError):
    """A source, or one item of it, cannot be read or indexed."""


class PartitionsMissing(SourceError):
    """An ingest cannot be finished before these `partitions`, by number, have been ingested, some of them again."""

    def __init__(self, message: str, partitions: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.partitions = tuple(partitions)


class EmbedderError(AirwError):
    """An embedder failed, or answered with vectors that cannot be used."""


class EmbedderUnavailable(EmbedderError, ValueError):
    """What an embedder needs, a package or a model, is not there."""


class EmbedderMismatch(EmbedderError, ValueError):
    """A corpus was built with another embedder than the one given."""


class StoreError(AirwError):
    """A store failed to read or write."""


class StoreBusy(StoreError, TimeoutError):
    """Another writer held the store for longer than we wait."""


class StoreCorrupt(StoreError):
    """A store's file is damaged, is not a corpus, or was written by a newer version."""


class PolicyError(AirwError):
    """A walk policy broke its contract with the operator."""


class RerankerError(AirwError):
    """A reranker failed, or answered with scores that cannot be used."""


class RerankerUnavailable(RerankerError, ValueError):
    """What a reranker needs, a package or a model, is not there."""


class ChatError(AirwError):
    """A language model's server cannot be reached, refuses, or answers with what is no text."""


class ChatUnavailable(ChatError, ValueError):
    """What a language model needs, its name or its key, is not there."""


class ChatBudgetSpent(ChatError):
    """The tokens that a chat client may use are used up, or the next request would take more than are left."""


class DiscoveryError(AirwError):
    """No source of a discovery answered; `causes` holds what each one raised, by name, and the cause all of them."""

    def __init__(self, message: str, causes: Mapping[str, Exception] | None = None) -> None:
        super().__init__(message)
        self.causes = dict(causes or {})


class CorpusNotFound(AirwError, KeyError):
    """There is no corpus of that name or at that path."""


class NoLedgerEntry(AirwError, KeyError):
    """A corpus does not hold the artifact that was asked for."""


class SeedNotFound(AirwError, ValueError):
    """A corpus does not hold the surface that a hit names: it was built again since, or is another one."""
