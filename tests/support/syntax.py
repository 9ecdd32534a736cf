"""Syntax trees of source files, for tests of house rules: each file is read once."""

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_PARTS = (ast.stmt, ast.excepthandler, ast.match_case)


@cache
def tree_of(path: Path) -> ast.Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    gc.freeze()  # otherwise each collection of garbage visits all nodes of all trees
    return tree


@cache
def statements_of(path: Path) -> list[ast.AST]:
    """Return the module and all statements in it, those inside others, too.

    Definitions and imports are statements. To leave out the expressions takes a tenth of the time of `ast.walk`.
    """
    return [tree_of(path), *_iterate_parts(tree_of(path))]


def _iterate_parts(node: ast.AST) -> Iterator[ast.AST]:
    for part in ast.iter_child_nodes(node):
        if isinstance(part, _PARTS):
            yield part
            yield from _iterate_parts(part)


def forget_trees() -> None:
    """Forget all trees: they take much memory."""
    statements_of.cache_clear()
    tree_of.cache_clear()
