"""`methods_of`: what a store must have to be of a protocol."""


def methods_of(protocol: type) -> frozenset[str]:
    """Return the names of the methods of a protocol.

    Example:
        >>> from airw.protocols import FirstSurfaceReader, TermStatistics
        >>> sorted(methods_of(TermStatistics))
        ['search_text', 'term_statistics']
    """
    return frozenset(name for name in dir(protocol) if name[0] != "_" and callable(getattr(protocol, name)))
