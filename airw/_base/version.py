"""The version of this airw, which only `pyproject.toml` names."""

from importlib.metadata import version

__version__: str = version("airw")
