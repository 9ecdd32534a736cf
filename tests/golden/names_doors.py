"""The public names of servers, integrations and the command line.

They import other large libraries, so they are compared in the slow run.
"""

from tests.golden import names

PARTS = ["doors"]
WAYS = ["python"]
QUICK = []


def record(part, way, folder):
    rows = names.rows_of(names.public_names(with_doors=True))
    return {name: row for name, row in rows.items() if name.startswith(names.DOORS)}
