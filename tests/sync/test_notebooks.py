"""Pages and `airw.sync` in a real Jupyter kernel, which runs an event loop of its own."""

import os
import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CELLS = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.slow


class Notebook:
    """A kernel, and the client that runs cells in it."""

    def __init__(self, folder):
        pytest.importorskip("ipykernel")
        self.manager = pytest.importorskip("jupyter_client").KernelManager(kernel_name="python3")
        environment = os.environ | {"PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}", "AIRW_HOME": "home"}
        self.manager.start_kernel(cwd=str(folder), env=environment)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code, *, interrupt_at=None):
        """Run a cell and return what it prints, then the name of its error if it fails.

        With `interrupt_at`, the stop button is pressed when the cell prints that text.
        """
        printed = []

        def note(message):
            if message["msg_type"] == "stream":
                printed.append(message["content"]["text"])
                if interrupt_at is not None and interrupt_at in message["content"]["text"]:
                    self.manager.interrupt_kernel()

        code = textwrap.dedent(code)
        reply = self.client.execute_interactive(code, output_hook=note, timeout=120)["content"]
        return "".join(printed) + ("" if reply["status"] == "ok" else reply["ename"])

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(tmp_path):
    opened = Notebook(tmp_path)
    yield opened
    opened.close()


@pytest.mark.parametrize("page", ["tutorial", "sync"])
def test_the_blocks_of_a_page_are_cells_as_they_stand(page, notebook):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").partition("## As a file")[0]
    cells = CELLS.findall(text)
    assert len(cells) >= 4
    for code, expected in cells:
        assert notebook.run(code).strip() == expected.strip()


def test_await_and_sync_work_in_one_cell(notebook):
    code = """
    import airw
    from airw import sync
    source = airw.from_mapping({"a": "signing keys"}, name="notes", embedder="light")
    sync.build(source).close()
    async with airw.open_corpus("notes") as corpus:
        print([hit.artifact_id async for hit in airw.traverse("keys", corpus)], len(sync.search("notes", "keys")))
    """
    assert notebook.run(code) == "['a'] 1\n"


def test_the_stop_button_ends_a_walk_and_the_next_cell_runs(notebook):
    setup = """
    import anyio, airw
    from airw import sync
    from airw.policies import CollapsedTree
    class Hanging(CollapsedTree):
        async def score(self, state, nodes, store):
            print("started", flush=True)
            await anyio.sleep_forever()
    source = airw.from_mapping({"a": "signing keys"}, name="notes", embedder="light")
    corpus = sync.build(source)
    walk = sync.traverse("keys", corpus, policy=Hanging())
    """
    assert notebook.run(setup) == ""
    assert notebook.run("next(walk)", interrupt_at="started") == "started\nKeyboardInterrupt"
    assert notebook.run("print(walk.summary.stop, len(corpus.search('keys')))") == "closed 1\n"
