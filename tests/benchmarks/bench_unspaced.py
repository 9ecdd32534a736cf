"""Ways to index text without spaces between words: what is found, at what cost.

5,000 made-up Chinese documents of 120 words each. A query is one of their words; 44 of 200 queries are a single letter.
A document is right if it contains the query. The last column is the share of right documents among the first ten.
"""

import random
import sqlite3
import time
from contextlib import closing
from itertools import pairwise

DOCUMENTS, WORDS, QUERIES, K = 5_000, 120, 200, 10
FIRST, LETTERS, VOCABULARY = 0x4E00, 3_000, 20_000


def space_letters(text):
    return " ".join(text)


def space_pairs(text):
    return " ".join(map("".join, pairwise(text))) or text


def space_both(text):
    return f"{space_letters(text)} {space_pairs(text)}"


def same(text):
    return text


WAYS = {
    "whole runs (unicode61)": ("unicode61", same, same),
    "trigram": ("trigram", same, same),
    "letters": ("unicode61", space_letters, space_letters),
    "pairs": ("unicode61", space_pairs, space_pairs),
    "letters and pairs (airw)": ("unicode61", space_both, space_pairs),
}


def make_texts():
    draw = random.Random(1)
    letters, chances = [chr(FIRST + at) for at in range(LETTERS)], [1 / (at + 5) for at in range(LETTERS)]
    words = ["".join(draw.choices(letters, chances, k=draw.choice([1, 2, 2, 2, 3]))) for _ in range(VOCABULARY)]
    chances = [1 / (at + 10) for at in range(VOCABULARY)]
    texts = ["".join(draw.choices(words, chances, k=WORDS)) for _ in range(DOCUMENTS)]
    return texts, [draw.choice(words[200:5_000]) for _ in range(QUERIES)]


def test_ways_to_index_text_without_spaces(tmp_path):
    texts, queries = make_texts()
    right = {query: {row for row, text in enumerate(texts) if query in text} for query in queries}
    print(f"\n{sum(len(text.encode()) for text in texts) / 1e6:.1f} MB of text")
    print(f"{'':26} {'index':>9} {'written':>8} {'found':>9} {'right in 10':>12}")
    for number, (way, (tokenizer, prepare, prepare_query)) in enumerate(WAYS.items()):
        path = tmp_path / f"{number}.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"CREATE VIRTUAL TABLE t USING fts5 (x, content='', tokenize='{tokenizer}')")
            start = time.perf_counter()
            with connection:
                rows = ((row, prepare(text)) for row, text in enumerate(texts))
                connection.executemany("INSERT INTO t (rowid, x) VALUES (?, ?)", rows)
            seconds = time.perf_counter() - start
            with connection:
                connection.execute("INSERT INTO t (t) VALUES ('optimize')")
            found, shares = 0, []
            for query in queries:
                match = " OR ".join(f'"{word}"' for word in prepare_query(query).split())
                sql = "SELECT rowid FROM t WHERE t MATCH ? ORDER BY bm25(t) LIMIT ?"
                best = {row for (row,) in connection.execute(sql, [match, K])}
                found += bool(best & right[query])
                shares.append(len(best & right[query]) / min(K, len(right[query])))
        size = path.stat().st_size / 1e6
        print(f"{way:26} {size:6.1f} MB {seconds:6.1f} s {found:5}/{QUERIES} {sum(shares) / QUERIES:12.2f}")
