"""A contract for import-linter: what is private stays in its package."""

from importlinter import Contract, ContractCheck, output


class PrivateModules(Contract):
    """A module or package whose name begins with `_` is imported only from inside the package that holds it."""

    type_name = "private"

    def check(self, graph, verbose):
        broken = sorted(
            (importer, module)
            for module in graph.modules
            if (owner := _owner(module))
            for importer in graph.find_modules_that_directly_import(module)
            if not f"{importer}.".startswith(f"{owner}.")
        )
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check):
        for importer, module in check.metadata["broken"]:
            output.print_error(f"{importer} imports {module}, which is private to {_owner(module)}", bold=False)


def _owner(module: str) -> str | None:
    """Return the package that holds the first private part of a dotted name; `None` where no part is private."""
    parts = module.split(".")
    for at, part in enumerate(parts):
        if part.startswith("_") and not part.startswith("__"):
            return ".".join(parts[:at])
    return None
