"""Read sources in tests, and write the folders that they read."""

from airw.values import Artifact, ItemProblem


def write(root, files):
    """Write texts or bytes to files below a folder, by relative path."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


async def read(source):
    """Return all items of a source; check that the reason of each problem is one line."""
    items = [item async for item in source.items()]
    assert not any("\n" in item.reason for item in items if isinstance(item, ItemProblem))
    return items


async def read_items(source):
    """Return the artifacts by id, and the problems in order."""
    items = await read(source)
    problems = [item for item in items if isinstance(item, ItemProblem)]
    return {item.id: item for item in items if isinstance(item, Artifact)}, problems


async def read_both(source):
    """Return the artifacts by id, and the problems by item."""
    artifacts, problems = await read_items(source)
    return artifacts, {problem.item: problem for problem in problems}


async def read_reasons(source):
    """Return the artifacts by id, and the reasons of the problems by item."""
    artifacts, problems = await read_items(source)
    return artifacts, {problem.item: problem.reason for problem in problems}
