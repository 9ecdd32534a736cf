"""The pages of the site that have no file in `docs`: the README, the examples, the reference.

`mkdocs.yml` names this file as a hook. The README and its sisters stay where visitors of a repository expect them. A
link that leads out of `docs` leads to a page that shows the file. The reference is generated from `__all__`.
"""

import posixpath
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType

from markdown import Markdown
from markdown.extensions import Extension
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import airw

ROOT = Path(__file__).parents[2]
# Pages beside the code, with their places in the site.
PLACES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"\]\((?P<path>[^)#:\s]+)(?P<anchor>(?:#[^)\s]*)?)\)")
CODE = re.compile(r"(^ *```.*?^ *```|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
WITHOUT_REFERENCE = {"cli"}  # the command line has a page of its own
# Classes that are not public, but that have the parameters of others which are.
BASES = {"airw.policies": ["artifact_policy.SearchParameters", "admitting_policy.AdmittingParameters"]}


class TwoSpaces(Extension):
    """Two spaces indent what belongs to an item of a list, as on GitHub."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - Markdown calls it so
        """Make the parser again, whose parts have read the indent already."""
        md.tab_length = 2
        md.build_parser()


def on_config(config: MkDocsConfig) -> None:
    """Read lists as GitHub does, and list the pages of the reference."""
    # The first of all: what others have added to the parser would be lost.
    config.markdown_extensions.insert(0, TwoSpaces())
    [reference] = [entry["Reference"] for entry in config.nav or [] if "Reference" in entry]
    reference += [uri for uri, _ in reference_pages() if uri not in reference]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages that have no file in `docs`."""
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in PLACES}
    texts |= {f"docs/{file.src_uri}": file.content_string for file in files.documentation_pages()}
    pages = {PLACES[name]: text for name, text in texts.items() if name in PLACES}
    linked = {path for name, text in texts.items() for path in links_of(text, name) if is_elsewhere(path)}
    pages |= {place_of(path): show_file(path) for path in linked}
    pages |= dict(reference_pages())
    for uri, content in pages.items():
        files.append(File.generated(config, uri, content=content))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Return the text with its links as they are in the site."""
    name = next((name for name, place in PLACES.items() if place == page.file.src_uri), f"docs/{page.file.src_uri}")

    def move(link: re.Match[str]) -> str:
        path = resolve(link["path"], name)
        if not (ROOT / path).exists():
            return link[0]
        return f"]({posixpath.relpath(place_of(path), posixpath.dirname(page.file.src_uri))}{link['anchor']})"

    return "".join(part if at % 2 else LINK.sub(move, part) for at, part in enumerate(CODE.split(markdown)))


def resolve(target: str, name: str) -> str:
    """Return the path of a link's target in the repository; `name` is the page with the link."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target))


def links_of(text: str, name: str) -> Iterator[str]:
    """Yield the paths to which a page links."""
    for part in CODE.split(text)[::2]:
        yield from (resolve(link["path"], name) for link in LINK.finditer(part))


def is_elsewhere(path: str) -> bool:
    """Return whether a path is that of a file outside of `docs` and of the pages beside the code."""
    return not path.startswith("docs/") and path not in PLACES and (ROOT / path).exists()


def place_of(path: str) -> str:
    """Return where the site shows a file of the repository."""
    if path in PLACES:
        return PLACES[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}.md"


def show_file(path: str) -> str:
    """Return a page that shows a file, or the programs of a folder."""
    if (ROOT / path).is_dir():
        programs = sorted((ROOT / path).glob("*.py"))
        shown = "\n\n".join(f"## {program.name}\n\n{fence(program)}" for program in programs)
    else:
        shown = fence(ROOT / path)
    return f"# {path}\n\n{shown}\n"


def fence(path: Path) -> str:
    """Return a file as a block of code."""
    return f"``````{path.suffix.removeprefix('.')}\n{path.read_text(encoding='utf-8')}``````"


def reference_pages() -> Iterator[tuple[str, str]]:
    """Yield the pages of the reference: what `airw` itself has, then a page for each public package."""
    contents = ["# Reference\n\nWhat `import airw` offers.\n"]
    for title, names in sections():
        file = f"{title.lower().replace(' ', '-')}.md"
        contents.append(f"- [{title}]({file}): {link_names(names)}")
        yield f"reference/{file}", render(title, names, "airw")
    contents.append("\nThe packages have the other names.\n")
    for name in public_modules():
        module = import_module(name)
        own = [each for each in names_of(module) if each not in airw.__all__] + BASES.get(name, [])
        contents.append(f"- [`{name}`]({name}.md): {first_line(module)}")
        yield f"reference/{name}.md", render(f"`{name}`", own, name, introduce(module))
    yield "reference/index.md", "\n".join(contents)


def public_names() -> Iterator[str]:
    """Yield the names of the reference, with their modules; those of `airw` itself first."""
    yield from (f"airw.{name}" for _, names in sections() for name in names)
    for module in public_modules():
        own = [name for name in names_of(import_module(module)) if name not in airw.__all__]
        yield from (f"{module}.{name}" for name in own + BASES.get(module, []))


def sections() -> Iterator[tuple[str, list[str]]]:
    """Yield the names of `airw`, in sections."""
    kinds = {name: getattr(airw, name) for name in airw.__all__}
    verbs = [name for name, kind in kinds.items() if not isinstance(kind, type)]
    contracts = [name for name, kind in kinds.items() if getattr(kind, "_is_protocol", False) or kind is airw.Policy]
    yield "Verbs", verbs
    yield "The values they give and take", [name for name in kinds if name not in {*verbs, *contracts}]
    yield "What one implements", contracts


def public_modules() -> Iterator[str]:
    """Yield the packages and modules whose names are public."""
    for info in iter_modules(airw.__path__):
        if not info.name.startswith("_") and info.name not in WITHOUT_REFERENCE:
            module = import_module(f"airw.{info.name}")
            if hasattr(module, "__all__"):
                yield module.__name__
            elif info.ispkg:
                inner = iter_modules(module.__path__, f"{module.__name__}.")
                yield from (each.name for each in inner if not each.name.rpartition(".")[2].startswith("_"))


def names_of(module: ModuleType) -> list[str]:
    """Return the public names of a module: those it lists, or those it defines."""
    defined = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
    return list(getattr(module, "__all__", [name for name in defined if not name.startswith("_")]))


def link_names(names: list[str]) -> str:
    """Return links to names of `airw` itself."""
    return ", ".join(f"[`{name}`][airw.{name}]" for name in names)


def first_line(module: ModuleType) -> str:
    """Return the first line of a module's docstring."""
    return str(module.__doc__).splitlines()[0]


def introduce(module: ModuleType) -> str:
    """Return the docstring of a module, and links to those of its names that `airw` has, too."""
    shared = [name for name in names_of(module) if name in airw.__all__]
    return f"{module.__doc__}\n{f'In `airw` itself: {link_names(shared)}.' if shared else ''}\n"


def render(title: str, names: list[str], module: str, introduction: str = "") -> str:
    """Return a page with the docstrings of names."""
    return f"# {title}\n\n{introduction}\n" + "\n".join(f"::: {module}.{name}\n" for name in names)
