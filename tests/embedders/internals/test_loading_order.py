"""The order of loading: some libraries crash others if they are loaded first."""

import subprocess
import sys
import textwrap

import pytest

pytestmark = [pytest.mark.models, pytest.mark.slow]


def test_onnxruntime_loads_after_the_index_of_a_large_corpus(minilm_export):
    """Loaded in the wrong way, the library of the index crashes every later C++ library."""
    code = """
        import sys, anyio, numpy as np
        from airw.embedders import OnnxEmbedder
        from airw.stores.sqlite._near_index import NearMaker
        NearMaker(4).add(np.arange(9), np.ones((9, 4), np.float32))
        assert "onnxruntime" not in sys.modules
        print(anyio.run(OnnxEmbedder(sys.argv[1]).embed_query, "keys").shape)
        """
    command = [sys.executable, "-c", textwrap.dedent(code), str(minilm_export)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == "(384,)\n"
