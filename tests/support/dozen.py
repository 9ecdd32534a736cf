"""A dozen linked notes, a few JSON lines, and cases about them."""

import json

from tests.support.plain_answers import prepare_terminal, run_command

NOTES = {
    "index.md": "---\ntitle: Index\ntags: [start]\nlinks:\n  - {id: keys.md, type: part-of}\n---\n"
    "Start here: [[keys]], [wallets](wallets.md) and [bread](food/bread.md).\n",
    "keys.md": "---\ntitle: Signing keys\nstatus: Final\ntags: [ops, security]\nlinks:\n"
    "  - {id: vault.md, type: supports}\n---\n"
    "Rotate the signing keys every month. A key that signs must never leave the [vault](vault.md).\n\n"
    "See [[rotation]] and [[nowhere]].\n",
    "rotation.md": "---\ntitle: Rotation\nstatus: Draft\naliases: [turning keys]\nlinks:\n"
    "  - {id: keys.md, type: depends-on}\n---\nA schedule of rotations, for keys and for people.\n",
    "vault.md": "---\ntitle: Vault\nstatus: Final\n---\nWhere secrets rest. Nobody may copy what lies here, "
    "except as [backup](ops/backup.md) says.\n",
    "wallets.md": "---\ntitle: How wallets sign\nstatus: Draft\n---\n# How wallets sign\n\nA wallet signs a message "
    "with its key.\n\n## Typed data\n\nTyped structured data is hashed first, and shown to the person who signs.\n\n"
    "## Hardware\n\nA hardware wallet keeps the key in a chip. See [keys](keys.md) and [[log]].\n",
    "ops/backup.md": "---\ntitle: Backup\nstatus: Final\n---\nCopies of the vault at night, kept for a year. "
    "See [[index]] and [gone](../gone.md).\n",
    "ops/log.md": "---\ntitle: Log of operations\n---\nEach rotation of keys is written into this log.\n",
    "food/log.md": "---\ntitle: Log of meals\n---\nWhat was eaten, day by day. Mostly [bread](bread.md).\n",
    "food/bread.md": "---\ntitle: Bread\ntags: [food]\n---\nFlour, water and salt. Bake for an hour.\n",
    "food/soup.md": "---\ntitle: Soup\ntags: [food]\nlinks:\n  - {id: food/bread.md, type: supports}\n---\n"
    "Onions, water and salt, with [[bread]].\n",
    "umlaut.md": "---\ntitle: Schlüssel\n---\nDer Schlüssel öffnet die Tür. 鍵 opens it, too: [[Signing keys]].\n",
    "lone.md": "Nothing links here, and nothing leads away.\n",
}
ITEMS = [
    {"id": "m1", "text": "Manual of the hardware wallet: press both buttons to sign.", "year": 2021, "lang": "en"},
    {"id": "m2", "text": "Manual of the oven: bake bread for an hour.", "year": 2019, "lang": "en"},
    {"id": "m3", "text": "Manual of the safe: rotate the keys of the lock each year.", "year": 2023, "lang": "en"},
    {"id": "m4", "text": "Handbuch des Ofens: Brot eine Stunde backen.", "year": 2019, "lang": "de"},
]
CASES = [
    {"query": "rotate signing keys", "gold": ["keys.md", "rotation.md"]},
    {"query": "flour water salt", "gold": ["food/bread.md"]},
    {"query": "typed structured data", "gold": ["wallets.md"]},
    {"query": "a month in Rome", "gold": []},
]


def write_notes(folder):
    """Write the notes, and return their folder."""
    for name, text in NOTES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def write_lines(file, items):
    """Write objects as JSON lines, and return the file."""
    file.write_text("".join(f"{json.dumps(item)}\n" for item in items), encoding="utf-8")
    return file


def write_library(folder):
    """Write the notes, the JSON lines and the cases."""
    write_notes(folder / "notes")
    write_lines(folder / "manuals.jsonl", ITEMS)
    write_lines(folder / "cases.jsonl", CASES)


def prepare_library(folder):
    """Write all, and build `notes` and `manuals` in a terminal of fixed width."""
    prepare_terminal()
    write_library(folder)
    for source in ("notes", "manuals.jsonl"):
        code, _, err = run_command(f"build {source} --embedder light")
        assert code == 0, err
