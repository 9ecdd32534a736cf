"""The tools `discover` and `read`."""

from types import NoneType
from typing import Any

from airw._base.checks import check_count, check_text_query
from airw._base.messages import escape_controls, one_line
from airw.discovery import WholeArtifact, discover, expand
from airw.mcp.calls import NOTE, ToolCall, quote_hit, quote_id, quote_title, take_id
from airw.serving.bodies import FieldKinds
from airw.serving.queries import check_query_length, take_text
from airw.values import SearchHit
from airw.views import describe

MOST_RESULTS = 20
"""The most documents that one answer lists."""

DEFAULT_PAGE, LONGEST_PAGE = 8_000, 20_000
"""The characters of a document that one answer has: by default, and at most."""

_DISCOVER_FIELDS: FieldKinds = {"query": str, "corpus": str, "k": int, "boost": (str, NoneType)}

_READ_FIELDS: FieldKinds = {"id": str, "corpus": str, "offset": int, "max_chars": int}


async def find_documents(call: ToolCall) -> dict[str, Any]:
    """Answer `discover`: the few documents that answer a question, or why there are none."""
    options = call.arguments(_DISCOVER_FIELDS)
    query = check_text_query(take_text(options, "query"))
    check_query_length(call, query)
    k = check_count("k", options.pop("k", 5), least=1, most=MOST_RESULTS)
    boost = options.pop("boost", None)
    names = call.pick_corpora(options)
    corpora = await call.open_in_time(names)
    timeout = call.seconds_left()
    result = await discover(corpora, query, max_k=k, boost=boost, disclose_level="metadata", timeout=timeout)
    found = [
        quote_hit(
            corpus=each.source or names[0],
            id=each.artifact_id,
            title=each.metadata.get("title"),
            text=each.summary,
            score=each.score,
        )
        for each in result.results
    ]
    explained = {"reason": one_line(result.reason), "explanation": one_line(result.explanation)}
    return {"hits": found, **explained, "missing": [*result.missing], "note": NOTE}


async def read_document(call: ToolCall) -> dict[str, Any]:
    """Answer `read`: the text of one document, in parts if it is long."""
    options = call.arguments(_READ_FIELDS)
    id = take_id(options, "id")
    offset = check_count("offset", options.pop("offset", 0))
    size = check_count("max_chars", options.pop("max_chars", DEFAULT_PAGE), least=200, most=LONGEST_PAGE)
    name = call.pick_corpus(options)
    with call.deadline():
        corpus = await call.open(name)
        passage = await expand(SearchHit(id, "", 0.0, ""), corpus, policy=WholeArtifact())
        [view] = await describe(corpus, [id])
    total = len(passage.text)
    check_count("offset", offset, most=total)
    end = min(total, offset + size)
    return {
        "corpus": name,
        "id": quote_id(id),
        "title": quote_title(view.title),
        "text": escape_controls(passage.text[offset:end], multiline=True),
        "offset": offset,
        "total": total,
        "next_offset": end if end < total else None,
        "note": NOTE,
    }
