"""The corpora of the golden rows: 233 proposals, and 300 odd documents made here.

A way is a store and an event loop, such as `"sqlite asyncio"`. `run` runs a recording on it, and `open_new` yields a
corpus on its store.
"""

import atexit
import random
import shutil
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import anyio

import airw
from airw.indexing import Notes
from airw.links import MarkdownLinks
from airw.stores import MemoryStore, SqliteStore
from tests.support.postgres import fresh_store

EIPS = Path(__file__).parents[2] / "examples" / "data" / "eips"
EACH_WAY = ("memory asyncio", "memory trio", "sqlite asyncio", "postgres asyncio")
MEMORY, SQLITE = EACH_WAY[0], EACH_WAY[2]


def run(recording, way, *arguments):
    """Run an async function on the event loop of a way."""
    return anyio.run(recording, way, *arguments, backend=way.split()[1])


@asynccontextmanager
async def open_new(way, folder, source):
    """Yield a corpus that is built on the store of a way, in an empty folder."""
    async with (
        new_store(way.split()[0], folder / f"{source.name}.airw") as store,
        airw.build(source, store=store) as built,
    ):
        yield built


@asynccontextmanager
async def new_store(kind, path):
    """Yield an empty store of a kind."""
    if kind == "postgres":
        async with fresh_store() as store:
            yield store
        return
    async with SqliteStore(path) if kind == "sqlite" else MemoryStore() as store:
        yield store


@asynccontextmanager
async def open_eips(way, folder):
    """Yield the corpus of all proposals, which no row may change.

    A file of it is built once a process.
    """
    if way == SQLITE:
        file = _folder_of_files() / "eips.airw"
        if not file.exists():
            async with open_new(way, file.parent, eips()):
                pass
        async with airw.open_corpus(file) as corpus:
            yield corpus
    else:
        async with open_new(way, folder, eips()) as corpus:
            yield corpus


@cache
def _folder_of_files():
    """Return a folder that is deleted when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="airw-golden-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def eips(name="eips", pattern=r".*\.md$"):
    """Return a source of the proposals whose file names match.

    Their paths, which are a part of bundles, do not depend on where the checkout is.
    """
    source = airw.from_notes(EIPS, name=name, pattern=pattern, embedder="light")
    return replace(source, metadata_of=lambda name, _: {"path": f"eips/{name}"})


EIP_THIRDS = {"early": r"eip-\d{1,3}\.md", "middle": r"eip-[1-4]\d{3}\.md", "late": r"eip-[5-9]\d{3}\.md"}


def eip_thirds():
    """Return three sources that hold each proposal once, cut by number."""
    return [eips(name, f"^{pattern}$") for name, pattern in EIP_THIRDS.items()]


@dataclass(frozen=True)
class OddLinks:
    """Links of Markdown, with weights (`weighs`), and into other corpora (`abroad`)."""

    id: str = "odd links 1"

    def extract(self, artifact, fields):
        """Return the links and names of an artifact."""
        found = MarkdownLinks().extract(artifact, fields)
        weighted = [airw.Link(name, "weighs", "derived", weight=weight) for name, weight in fields.get("weighs", [])]
        abroad = [airw.Link(id, "abroad", "derived", target_source=source) for source, id in fields.get("abroad", [])]
        return replace(found, links=[*found.links, *weighted, *abroad])


def odd(name="odd", documents=None):
    """Return a source of the odd documents, or of some of them."""
    documents = odd_documents() if documents is None else documents
    return airw.from_mapping(
        {id: text for id, (text, _) in documents.items()},
        name=name,
        strategy=Notes(chunk_size=400, overlap=60),
        embedder="light",
        edge_extractor=OddLinks(),
        metadata_of=lambda name, _: documents[name][1],
    )


def odd_thirds():
    """Return three sources of the odd documents, each of which links to the next one."""
    documents = list(odd_documents().items())
    names = ("left", "centre", "right")
    thirds = {name: {} for name in names}
    for at, (id, (text, fields)) in enumerate(documents):
        target = [names[(at + 1) % 3], documents[(at + 1) % len(documents)][0]]
        thirds[names[at % 3]][id] = (text, {**fields, "abroad": [target]})
    return [odd(name, documents) for name, documents in thirds.items()]


TOPICS = {
    "garden": "rose tulip seed soil rain spade compost hedge bloom prune water root leaf bee",
    "harbour": "ship anchor rope tide crane cargo pilot lantern gull mast deck storm quay sail",
    "clock": "gear spring hour minute pendulum bell tower repair brass second wheel tick dial key",
    "bakery": "flour yeast oven loaf crust salt knead dough rye morning baker sugar butter tray",
    "atlas": "map river border legend scale north mountain road island survey compass city valley lake",
    "keys": "sign wallet secret rotate vault token proof hash message chain account lock seal guard",
}
FILLERS = ["the", "of", "and", "which", "near", "a", "under", "before", "old", "small", "holds", "finds"]

SCRIPTS = {
    "zh": [
        "签名密钥每年轮换两次",
        "花园里的玫瑰在雨后开放",
        "港口的船等待潮水",
        "面包师在早晨揉面团",
        "地图上有河流和山",
    ],
    "ja": [
        "署名鍵を年に二回交換する",
        "庭のバラは雨のあとに咲く",
        "港のふねは潮を待つ",
        "パンやさんは朝に生地をこねる",
    ],
    "ko": ["서명 키를 일년에 두 번 바꾼다", "정원의 장미는 비 온 뒤에 핀다", "항구의 배는 밀물을 기다린다"],
    "th": ["เปลี่ยนกุญแจลงนามปีละสองครั้ง", "กุหลาบในสวนบานหลังฝนตก", "เรือในท่าเรือรอน้ำขึ้น"],
    "hi": ["हस्ताक्षर की कुंजी साल में दो बार बदलें", "बगीचे का गुलाब बारिश के बाद खिलता है", "बंदरगाह में जहाज़ ज्वार का इंतज़ार करता है"],
    "ar": ["تُبَدَّلُ مَفَاتِيحُ التَّوْقِيعِ مَرَّتَيْنِ فِي السَّنَةِ", "تتفتح الوردة في الحديقة بعد المطر", "السَّفِينَةُ تَنْتَظِرُ المَدَّ"],
    "he": ["מפתחות החתימה מוחלפים פעמיים בשנה", "הוורד בגן פורח אחרי הגשם"],
    "el": ["Τα κλειδιά υπογραφής αλλάζουν δύο φορές", "Το τριαντάφυλλο ανθίζει μετά τη βροχή"],  # noqa: RUF001
    "ru": ["Ключи подписи меняют дважды в год", "Роза в саду цветёт после дождя"],
}
MARKS = [
    "café au lait",
    "cafe\u0301 au lait",
    "naïve coöperation",
    "Ångström A\u030angstro\u0308m",
    "Zalgo z\u0310\u0322\u0489a",
]
LIGATURES = ["ﬁne oﬃce ﬂour", "encyclopædia œuvre", "ĳsberg ǆungla", "ⅷ ½ ℡ ㎏", "ﬀ ﬃ ﬄ ﬅ ﬆ"]
EMOJI = ["🌹 rose in the garden", "👩‍🔧 repairs the clock 🕰️", "🚢🚢🚢", "bread 🍞+🧈=😋", "🇬🇷 map 🗺️", "1️⃣ 2️⃣ keys 🔑"]
NUMBERS = [
    "3.14159",
    "1,000,000 loaves",
    "0x1f 0b101 1e-9",
    "2021-03-05",
    "05/03/2021 12:30",
    "IV. 42nd",
    "v1.2.3-rc.4+5",
    "−7 °C",  # noqa: RUF001
]
CODE = [
    "```python\ndef rotate(keys):\n    return keys[1:] + keys[:1]\n```",
    "`vault.open()` opens the vault",
    "```\n[[not a link]] in code\n```",
    "SELECT id FROM tide WHERE hour >= 6; -- storm",
    "$ make bread && echo done | tee log",
    "camelCaseName snake_case_name kebab-case-name",
]
MARKUP = [
    "<p>rose &amp; <b>tulip</b></p>\n\n<script>alert(1)</script>",
    "| gear | hour |\n|---|---|\n| brass | 12 |",
    "# Bell\n\n## Tower\n\n- one\n- two\n\n> quoted tide",
    "<!-- [[hub.md]] hidden --> visible anchor",
    "![picture](rose.png) [site](https://example.org/a?b=c#d)",
]
CONTROLS = [
    "bell\x07rings",
    "tab\tand\x0bvertical",
    "escape \x1b[31mred\x1b[0m",
    "zero\u200bwidth\u200djoin",
    "\ufeffmark first",
    "line\u2028sep",
    "del\x7f\x85next",
    "cr\r\nlf\rends",
]
WORDS = [
    "rose",
    "Rose",
    "ROSES",
    "tide",
    "key",
    "the",
    "of",
    "x",
    "rotating",
    "rotation",
    "42",
    "ß",
    "STRASSE",
    "straße",
]
EQUAL = ["the tide turns at the quay", "rotate the keys", "salt", "rye loaf", "🌹"]
BLANKS = ["", " ", "\n\n\n", "---\n---\n", "# \n", "\u3000"]
PATHS = (
    "a/b/c.md percent%20sign 100% ünï.md 日本.md UPPER.md upper.md semi;colon #hash ?q=1&r=2 ..dots 🔑 0 -1 null [x](y)"
)
IDS = [
    *PATHS.split(),
    "a|b",
    "with space",
    "trailing ",
    "a/b/d e.md",
    'it\'s "quoted"',
    "back\\slash",
    "new\nline",
    "id-" + 150 * "x",
]


def odd_documents():
    """Return 300 documents by id: a text and its fields each. They are the same in each run."""
    numbers = random.Random(300)

    def pick(items):
        return items[int(numbers.random() * len(items))]

    def sentence(topic):
        words = [pick(TOPICS[topic].split()) if numbers.random() < 0.5 else pick(FILLERS) for _ in range(8)]
        return " ".join(words).capitalize() + "."

    def prose(topic, sentences):
        title = f"# {topic.capitalize()} {pick(TOPICS[topic].split())}"
        return f"{title}\n\n" + " ".join(sentence(topic) for _ in range(sentences))

    kinds = {
        "blank": BLANKS,
        "word": WORDS,
        "equal": [text for text in EQUAL for _ in "ab"],
        "long": [prose(topic, 150) for topic in ("garden", "harbour", "keys")],
        "marks": MARKS,
        "ligature": LIGATURES,
        "emoji": EMOJI,
        "number": NUMBERS,
        "code": CODE,
        "markup": MARKUP,
        "control": CONTROLS,
        **SCRIPTS,
    }
    texts = {f"{kind}-{at}.md": text for kind, found in kinds.items() for at, text in enumerate(found)}
    texts |= {id: prose(pick(list(TOPICS)), 2) for id in IDS}
    texts |= _graph()
    topics = list(TOPICS)
    while len(texts) < 300:
        at = len(texts)
        texts[f"note-{at}.md"] = prose(topics[at % 6], 1 + at % 5) + f"\n\nSee [[note-{at - 1 - at % 7}]]."
    return {id: (text, _fields(at, id)) for at, (id, text) in enumerate(texts.items())}


def _graph():
    """Return documents that link: chains, cycles, hubs, and links to nothing."""

    def note(body, *links, title=None):
        lines = [f"title: {title}"] if title else []
        lines += ["links:", *(f"  - {{type: {type}, id: {name}}}" for type, name in links)] if links else []
        return "\n".join(["---", *lines, "---", body])

    texts = {f"chain-{at:02}.md": note(f"Link {at} of the chain", ("next", f"chain-{at + 1:02}")) for at in range(15)}
    texts |= {f"cycle-{at}.md": note(f"Spoke {at} of the wheel", ("next", f"cycle-{(at + 1) % 5}")) for at in range(5)}
    texts |= {f"spoke-{at}.md": note("A small tide at the [[hub]].", ("part-of", "hub.md")) for at in range(12)}
    texts["hub.md"] = "# Hub\n\nAll tides: " + ", ".join(f"[[spoke-{at}]]" for at in range(0, 12, 2))
    texts["self.md"] = "The lantern of [[self]] and [[self.md]], and of [[chain-00]]."
    texts["twice.md"] = note("[[hub]] and [[hub]] and [again](hub.md)", ("related", "hub"), ("supports", "hub"))
    texts["nowhere.md"] = note("A storm at [[no such note]], [gone](gone.md), ![[lost]].", ("supports", "nobody"))
    texts["bridge.md"] = note(
        "The road from island to city", ("supports", "chain-03"), ("cites", "cycle-2"), ("cites", "hub")
    )
    texts["heavy.md"] = "Cargo that weighs: [[light-1]]"
    texts |= {f"light-{at}.md": f"A crane lifts {at} ropes" for at in (1, 2, 3)}
    texts |= {
        "p/same.md": "One of two with this name",
        "q/same.md": "Two of two",
        "asks.md": "Which [[same]]? This: [[p/same]].",
    }
    texts["titled.md"] = note("Its title is the id of another: [[hub.md]]", title="hub.md")
    texts["named.md"] = note("[[Merge of Tides]] and [[merge of tides]] and [[Atlas]]", title="Atlas")
    texts["tides.md"] = note("How tides merge at the quay", title="Merge of Tides")
    texts["abroad.md"] = "[[one|hub]] and [[hub|other]] and [[bridge#road]] and [ref][r]\n\n[r]: tides.md"
    return texts


def _fields(at, id):
    """Return fields of all kinds of JSON; some have names that the library uses, too."""
    fields = {
        "kind": id.partition("-")[0],
        "n": at,
        "year": 2000 + at % 25,
        "date": f"{2000 + at % 25}-{1 + at % 12:02}-{1 + at % 28:02}",
        "tags": [["a", "b"], ["b"], [], ["a", 1, None]][at % 4],
        "draft": [True, False, None][at % 3],
        "ratio": at / 8,
        "nested": {"deep": {"er": at % 7}, "list": [at % 2, "x"]},
        "mixed": [1, 1.0, True, "1", None, [1], {"a": 1}, ""][at % 8],
    }
    if at % 10 == 0:
        fields |= {"big": 2**70 + at, "tiny": 1e-300, "dotted.name": at, "with space": "ü", "$odd": 1}
    if at % 15 == 0:
        fields |= {"start": -at, "end": "never", "path": f"/author/{at}", "seed": "rose", "score": 9, "walk_depth": 99}
    if id == "heavy.md":
        fields["weighs"] = [["light-1", 0.9], ["light-2", 0.5], ["light-3", 0.1], ["hub", 0.3]]
    if id.startswith("light"):
        fields["weighs"] = [["bridge", 0.4], ["tides", 0.8]]
    return fields
