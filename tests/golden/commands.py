"""The command line: what commands that find print as JSON, and how wrong commands end.

A row is a command as it is typed. `tests/golden/more_commands.py` has the other commands.
"""

from tests.support.dozen import prepare_library
from tests.support.plain_answers import json_row, wrong_row

PARTS = ("finding", "wrong")
WAYS = ("here",)

KEYS = '"rotate signing keys"'
JSON = " --format json"

FINDING = [
    f"search notes {KEYS} -k 3 -m dense",
    f"search notes {KEYS} -k 3 -m lexical",
    *(f"search notes {KEYS} -k 3 -m hybrid --fusion {fusion}" for fusion in ("scores", "ranks", "blend", "rrf")),
    f'search notes {KEYS} -k 3 --filter \'{{"status": "Final"}}\'',
    f"search notes {KEYS} -k 4 -m dense --all-surfaces",
    f"search notes {KEYS} -k 2 --surfaces chunk",
    "search notes zzz -m lexical",
    f"traverse notes {KEYS} --node-budget 4",
    *(
        f"traverse notes {KEYS} --node-budget 4 --policy {name}"
        for name in ("beam", "eager", "link-walk", "mmr", "scored")
    ),
    f"traverse notes {KEYS} --policy collapsed-tree --max-depth 1",
    f"traverse notes {KEYS} --node-budget 4 --policy personalized-page-rank --set roots=keys.md",
    f"traverse notes {KEYS} --policy reverse-dependency --set roots=keys.md",
    f"traverse notes {KEYS} --node-budget 0",
    f"traverse notes {KEYS} --max-depth 0 --start 2",
    f"traverse notes {KEYS} --node-budget 3 --count-beyond-limits",
    f"discover notes {KEYS}",
    "discover notes zzz -m lexical",
    f"discover notes {KEYS} --strategy top_k --max-k 3 -k 5",
    f"discover notes {KEYS} --strategy abs_threshold --min-score 0.15",
    f"discover notes {KEYS} --max-k 1 --disclose body --root notes",
    "discover notes 'typed structured data' --max-k 1 --expand 1",
    f"discover notes manuals {KEYS}",
    "expand notes wallets.md",
    "expand notes wallets.md --surface-index 1 --parent",
]

# A wrong command, and what its one line must name.
WRONG = [
    ("nonsense", "nonsense"),
    ("search", "QUERY"),
    ("search notes", "QUERY"),
    ("search keys", "corpus"),
    ("search nots keys", "nots"),
    ("search notes keys more", "more"),
    ("search notes keys --kk 3", "--kk"),
    ("search notes keys -k 0", "-k"),
    ("search notes keys -k ten", "ten"),
    ("search notes keys -m fuzzy", "--mode"),
    ("search notes keys --filter '{'", "--filter"),
    ("search notes keys --filter '[1]'", "filter"),
    ("search notes keys --embedder ''", "--embedder"),
    ("search notes keys --format yaml", "--format"),
    ("search notes ''", "query"),
    ("traverse notes keys --policy nope", "--policy"),
    ("traverse notes keys --set width", "--set"),
    ("traverse notes keys --policy beam --set height=3", "height"),
    ("traverse notes keys --policy beam --set width=0", "width"),
    ("traverse notes keys --policy personalized-page-rank --set roots=nope.md", "nope.md"),
    ("traverse notes keys --node-budget -1", "--node-budget"),
    ("traverse notes keys --max-depth -1", "--max-depth"),
    ("traverse notes keys --timeout -1", "--timeout"),
    ("discover notes keys --strategy best", "--strategy"),
    ("discover notes keys --max-k -1", "--max-k"),
    ("discover notes keys --rel 2", "--rel"),
    ("discover notes keys --min-score high", "--min-score"),
    ("discover notes keys --disclose all", "--disclose"),
    ("discover notes nots keys", "nots"),
    ("expand notes nope.md", "nope.md"),
    ("expand notes keys.md --surface-index 9", "9"),
    ("expand notes keys.md --window -1", "--window"),
    ("link", "COMMAND"),
    ("link tree -c notes", "ID"),
    ("link tree -c notes nope.md", "nope.md"),
    ("link tree -c notes log", "log"),
    ("link tree -c notes keys.md -d up", "--direction"),
    ("link tree -c notes keys.md --max-hops -1", "--max-hops"),
    ("link tree -c notes keys.md --max-chars 100", "--max-chars"),
    ("link tree -c notes keys.md --typed-only --inline-only", "--typed-only"),
    ("link path -c notes keys.md", "TO"),
    ("link path -c notes keys.md nope.md", "nope.md"),
    ("link list -c notes nope.md", "nope.md"),
    ("link check nots", "nots"),
    ("context -c notes", "--walk"),
    ("context -c notes --note nope.md", "nope.md"),
    ("context -c notes --note keys.md --max-chars 100 --format json", "--max-chars"),
    ("context -c notes --walk keys.md --format records --max-chars 1", "--max-chars"),
]


def record(part, way, folder):
    prepare_library(folder)
    if part == "wrong":
        return {line: wrong_row(line, culprit) for line, culprit in WRONG}
    return {line: json_row(line + JSON, folder) for line in FINDING}
