"""Notes for the tests of retrievers, and what two answers are compared by."""

import airw

NOTES = {
    "keys.md": "---\nsource: handbook\nscore: 7\n---\n# Keys\nRotate the signing keys. See [the vault](vault.md).",
    "vault.md": "# Vault\nThe vault keeps secrets. See [people](people.md).",
    "people.md": "# People\nWho may open the vault.",
    "bread.md": "# Bread\nBake a loaf of bread.",
}
QUERY = "rotate the signing keys"


def write_notes(folder, others=()):
    """Write the notes and other ones, and return the source of a corpus of them."""
    folder.mkdir()
    for name, text in {**NOTES, **dict(others)}.items():
        (folder / name).write_text(text, encoding="utf-8")
    return airw.from_notes(folder, name="notes", embedder="light")


def describe_hits(hits):
    return [(hit.artifact_id, hit.score, hit.source) for hit in hits]
