"""Public trees of notes, and their links as another resolver found them.

`python -m tests.support.note_trees [NAME...]` prints a table; `AIRW_DATA` names the folder of the trees. The other
resolver reads links in the text only, and knows fewer ways to write them. Each difference therefore has a reason, which
is looked up in the text of the note.
"""

import gzip
import os
import re
import sys
import tarfile
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from airw._base.frontmatter import NOTE_SUFFIX
from airw.links import MarkdownLinks
from airw.links.sites import SiteSurvey
from airw.values import Artifact, Extraction, Link, fold_name
from tests.support.archives import unpack

FOLLOWS_LABEL = "the other resolver follows its label"
FOLDED = 100  # the tier of names in any case


class Tree(NamedTuple):
    """A tree of notes.

    It has a folder, the texts and extractions by path, and the edges of the other resolver.
    """

    root: Path
    notes: dict[str, str]
    extractions: dict[str, Extraction]
    edges: set[tuple[str, str]]


def read_tree(source: Path, folder: Path) -> Tree:
    """Unpack a tree into a folder, and extract its links."""
    with tarfile.open(source / f"{source.name}.tar.gz") as archive:
        unpack(archive, folder)
    root = folder / source.name
    paths = sorted(path for path in root.rglob("*") if NOTE_SUFFIX.search(path.name))
    notes = {path.relative_to(root).as_posix(): path.read_text("utf-8") for path in paths}
    with gzip.open(source / "edges.tsv.gz", "rt", encoding="utf-8") as lines:
        edges = {(first, second) for first, second, *_ in (line.rstrip("\n").split("\t") for line in lines)}
    artifacts = [Artifact(id, text) for id, text in notes.items()]
    survey = SiteSurvey()
    survey.add(artifacts)
    extractor = survey.prepare(MarkdownLinks())
    extractions = {artifact.id: extractor.extract(artifact, {}) for artifact in artifacts}
    return Tree(root, notes, extractions, edges - {("src", "dst")})


def resolve_links(
    extractions: dict[str, Extraction], origin: str = "inline"
) -> dict[tuple[str, str], tuple[Link, int]]:
    """Return the link and the tier of each edge, resolved by the tiers of names."""
    holders: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for id, extraction in extractions.items():
        for tier, names in enumerate(extraction.names):
            for name in names:
                holders[name].append((tier, id))
                holders[f"\0{fold_name(name)}"].append((FOLDED, id))

    def find(ref: str) -> tuple[int, set[str]]:
        found = holders.get(ref) or holders.get(f"\0{fold_name(ref)}") or [(FOLDED, "")]
        strongest = min(found)[0]
        return strongest, {id for tier, id in found if tier == strongest and id}

    edges: dict[tuple[str, str], tuple[Link, int]] = {}
    for id, extraction in extractions.items():
        for link in extraction.links:
            meant = [find(ref) for ref in (link.target_ref, link.or_ref) if ref is not None]
            certain = [each for each in meant if len(each[1]) == 1]
            if link.origin == origin and certain:
                tier, [target] = min(certain, key=lambda each: each[0])
                if target != id:
                    edges.setdefault((id, target), (link, tier))
    return edges


def why_missed(text: str, target: str) -> str | None:
    """Return the reason why only the other resolver finds an edge."""
    stem = target.rpartition("/")[2].removesuffix(".md")
    shown = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    if stem not in shown:
        return "it is in a comment"
    if re.search(rf"\[\[{re.escape(stem)}\|", shown, re.IGNORECASE):
        return FOLLOWS_LABEL
    if re.search(rf"\|\s*{re.escape(stem)}\]\]", shown):
        return "only its second side is the plain name of a note"
    return None


def why_extra(text: str, link: Link, tier: int) -> str | None:
    """Return the reason why the other resolver does not find a link."""
    lines = text.splitlines()
    line = lines[(link.line or 1) - 1]
    ref = link.target_ref.removeprefix("./").strip("/")
    if re.search(r"\|\s*(?:relative|absolute)_url|\{%-?\s*(?:link|post_url)\b|site\.(?:base)?url", line):
        return "it is a template of a site generator"
    if re.search(r"<a\s", line, re.IGNORECASE) or re.search(r"<a\s*$", lines[(link.line or 2) - 2], re.IGNORECASE):
        return "it is a tag in HTML"
    if link.or_ref and tier >= 4 and re.search(r"\]\(\.\.?/", line):
        return "it is relative to the published page"
    if tier >= 4 and link.target_ref.startswith("/"):
        return "it is an address that the note declares, or at which it is published"
    if re.search(r"\]\([^()<>]*\.md[^()]* [^()]*\)", line):
        return "its target contains spaces"
    if tier == 3:
        return "it names a title or an alias"
    if re.search(r"\.md(?:#[^\]]*)?\]\]", line):
        return "it is a wiki link that ends with .md"
    if re.search(rf"\[\[[^\]|]+\|[^\]]*{re.escape(ref)}", line, re.IGNORECASE):
        return FOLLOWS_LABEL
    if sum(each.count("```") for each in lines[: (link.line or 1) - 1]) % 2:
        return "three backticks before it are taken for code that goes on"
    return None


def explain(tree: Tree) -> tuple[dict[tuple[str, str], tuple[Link, int]], dict[tuple[str, str], str | None]]:
    """Return the edges of a tree, and the reason of each difference from the other resolver."""
    edges = resolve_links(tree.extractions)
    reasons = {(id, target): why_missed(tree.notes[id], target) for id, target in tree.edges - edges.keys()}
    reasons |= {edge: why_extra(tree.notes[edge[0]], *edges[edge]) for edge in edges.keys() - tree.edges}
    return edges, reasons


def measure(source: Path) -> dict[str, Any]:
    """Return how far the links of a tree agree with those of the other resolver."""
    with tempfile.TemporaryDirectory() as folder:
        tree = read_tree(source, Path(folder))
        edges, reasons = explain(tree)
    common = len(edges.keys() & tree.edges)
    explained = {edge for edge, reason in reasons.items() if reason is not None}
    return {
        "notes": len(tree.notes),
        "edges": len(edges),
        "reference": len(tree.edges),
        "precision": common / len(edges),
        "recall": common / len(tree.edges),
        "precision if explained": common / len(edges.keys() - explained),
        "recall if explained": common / len(tree.edges - explained),
        "reasons": Counter(str(reason) for reason in reasons.values()),
    }


def main(names: list[str]) -> None:
    """Print a table of the trees."""
    data = Path(os.environ["AIRW_DATA"])
    sources = sorted(path.parent for path in data.glob("md-*/edges.tsv.gz") if not names or path.parent.name in names)
    columns = f"{'tree':14}{'notes':>7}{'edges':>7}{'other':>7}{'precision':>11}{'recall':>9}"
    print(f"{columns}   without what the other resolver misreads")
    for source in sources:
        row = measure(source)
        counts = f"{source.name:14}{row['notes']:7}{row['edges']:7}{row['reference']:7}"
        print(
            f"{counts}{row['precision']:11.4f}{row['recall']:9.4f}"
            f"   {row['precision if explained']:.4f} {row['recall if explained']:.4f}"
        )
        for reason, count in row["reasons"].most_common():
            print(f"{count:21}  {reason}")


if __name__ == "__main__":
    main(sys.argv[1:])
