"""A contract for import-linter: private modules are imported only in their package."""

from importlinter import Contract, ContractCheck, output


class PrivateModules(Contract):
    """Checks that modules whose name begins with `_` are imported only in their own package."""

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
    """Return the package of the first private part of a dotted name, or `None`."""
    parts = module.split(".")
    for at, part in enumerate(parts):
        if part.startswith("_") and not part.startswith("__"):
            return ".".join(parts[:at])
    return None
