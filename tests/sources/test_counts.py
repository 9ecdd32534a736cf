"""The number of items that a source tells before it is read."""

import gzip

import anyio
import pytest

from airw.sources import from_files, from_jsonl, from_mapping, from_notes


def count_read(source):
    async def main():
        return [item.id async for item in source.items()]

    return len(anyio.run(main))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a.md", "b.md", "sub/c.md", "d.txt"):
        (tmp_path / name).write_text("text")
    (tmp_path / "lines.jsonl").write_text('{"id": 1, "text": "a"}\n{"id": 2, "text": "b"}\n{"id": 3, "text": "c"}')
    return tmp_path


@pytest.mark.parametrize(
    "make",
    [
        from_files,
        lambda folder: from_notes(folder, exclude=lambda name: name == "b.md"),
        lambda folder: from_jsonl(folder / "lines.jsonl"),
        lambda folder: from_mapping({"a": "one", "b": "two"}, name="letters"),
    ],
    ids=["files", "notes", "jsonl", "mapping"],
)
def test_a_source_counts_the_items_that_it_yields(folder, make):
    source = make(folder)
    assert source.count_items() == count_read(source) > 1


def test_a_compressed_file_is_not_unpacked_to_count_its_lines(folder):
    path = folder / "lines.jsonl.gz"
    path.write_bytes(gzip.compress((folder / "lines.jsonl").read_bytes()))
    source = from_jsonl(path)
    assert (source.count_items(), count_read(source)) == (None, 3)
