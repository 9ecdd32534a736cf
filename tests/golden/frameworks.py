"""Retrievers of LangChain and LlamaIndex: the ids, scores and fields that they find."""

from airw import from_notes, sync
from airw.policies import Beam, Eager
from tests.support.dozen import write_library
from tests.support.plain_answers import find_name, plain

PARTS = ("langchain", "llama_index")
WAYS = ("here",)
QUICK = ()

KEYS = "rotate signing keys"

# The retriever, its options, the query.
RETRIEVERS = [
    ("search", {"k": 3}, KEYS),
    ("search", {"k": 2, "mode": "lexical"}, KEYS),
    ("search", {"k": 2, "filter": {"status": "Final"}}, KEYS),
    ("search", {"k": 4, "per_artifact": False}, "the vault"),
    ("search", {"k": 3, "mode": "lexical"}, "zzz"),
    ("walk", {"k": 3}, KEYS),
    ("walk", {"k": 5, "node_budget": 3}, KEYS),
    ("walk", {"k": 3, "policy": Beam(width=2)}, KEYS),
    ("walk", {"k": 3, "policy": Eager(), "max_depth": 1}, "the vault"),
    ("discover", {}, KEYS),
    ("discover", {"max_k": 1}, "flour and salt"),
]
WRONG = [
    ("search", {"k": -1}, "k"),
    ("search", {"kk": 1}, "kk"),
    ("search", {"mode": "fuzzy"}, "mode"),
    ("walk", {"policy": "nope"}, "policy"),
    ("walk", {"node_budget": -1}, "node_budget"),
    ("discover", {"strategy": "best"}, "strategy"),
]


def record(part, way, folder):
    write_library(folder)
    sync.build(from_notes(folder / "notes", embedder="light")).close()
    return {"langchain": record_langchain, "llama_index": record_llama_index}[part](folder)


def name_of(kind, options, query=""):
    """Return the name of a row; a policy is called by its class."""
    shown = " ".join(f"{name}={str(value).partition('(')[0]}" for name, value in options.items())
    return " ".join(filter(None, [kind, shown, query]))


def mistakes(module):
    """Return of each wrong option the class of the error, and whether it names the option."""
    rows = {}
    for kind, options, culprit in WRONG:
        try:
            found = getattr(module, f"{kind}_retriever")("notes", **options).invoke(KEYS)
            rows[name_of(kind, options)] = {"found": len(found)}
        except Exception as error:  # noqa: BLE001 - the class is what is written down
            rows[name_of(kind, options)] = {
                "error": type(error).__name__,
                "names": find_name(culprit, str(error)),
            }
    return rows


def record_langchain(folder):
    """Return the documents of each retriever, and those of a batch."""
    from airw.integrations import langchain

    rows = mistakes(langchain)
    for kind, options, query in RETRIEVERS:
        documents = getattr(langchain, f"{kind}_retriever")("notes", **options).invoke(query)
        found = [{"id": each.id, "text": each.page_content, "metadata": each.metadata} for each in documents]
        rows[name_of(kind, options, query)] = describe_documents(found, folder)
    batch = langchain.search_retriever("notes", k=1).batch([KEYS, "flour and salt"])
    rows["batch of two queries"] = [[each.id for each in found] for found in batch]
    return rows


def record_llama_index(folder):
    """Return the nodes of each retriever, and what the postprocessor adds."""
    from airw.integrations import llama_index

    rows = {}
    for kind, options, query in RETRIEVERS:
        nodes = getattr(llama_index, f"{kind}_retriever")("notes", **options).retrieve(query)
        rows[name_of(kind, options, query)] = describe_documents([node_fields(each) for each in nodes], folder)
    found = llama_index.search_retriever("notes", k=1).retrieve(KEYS)
    for options in ({}, {"k": 2}, {"k": 3, "max_depth": 2}):
        both = llama_index.LinkPostprocessor("notes", **options).postprocess_nodes(found, query_str=KEYS)
        rows[name_of("postprocessor", options)] = [[each.node_id, each.score] for each in both]
    return rows


def node_fields(scored):
    node = scored.node
    return {
        "id": node.node_id,
        "score": scored.score,
        "of": node.ref_doc_id,
        "text": node.text,
        "metadata": node.metadata,
    }


def describe_documents(found, folder):
    """Return the first of what was found whole, and of the others the ids and scores."""
    others = [[each["id"], each.get("score"), each["metadata"]["airw"].get("score")] for each in found[1:]]
    return [*plain(found[:1], folder), *others]
