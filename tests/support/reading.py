"""Reading sources in tests, and writing the trees that they read."""

from airw.values import Artifact, ItemProblem


def write(root, files):
    """Write texts, or bytes, below a folder by their relative path."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


async def read(source):
    """Everything that a source gives; each reason of a problem is one line."""
    items = [item async for item in source.items()]
    assert not any("\n" in item.reason for item in items if isinstance(item, ItemProblem))
    return items


async def read_items(source):
    """The artifacts by id, and the problems in their order."""
    items = await read(source)
    problems = [item for item in items if isinstance(item, ItemProblem)]
    return {item.id: item for item in items if isinstance(item, Artifact)}, problems


async def read_both(source):
    """The artifacts by id, and the problems by item."""
    artifacts, problems = await read_items(source)
    return artifacts, {problem.item: problem for problem in problems}


async def read_reasons(source):
    """The artifacts by id, and the reasons of the problems by item."""
    artifacts, problems = await read_items(source)
    return artifacts, {problem.item: problem.reason for problem in problems}
