"""`page_routes`: the page, its style and its scripts."""

from collections.abc import Awaitable, Callable
from importlib.resources import files

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

# The page loads its own files only, sends requests to its own server only, and turns no text into elements.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Cache-Control": "no-cache",  # a newer server may answer in other words than an older page expects
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_ASSETS = ("page.css", "page.js", "stream.js", "hits.js", "drawing.js", "texts.js")


def page_routes() -> list[Route]:
    """Return the routes of the page: `GET /`, and its style and scripts below `/page/`.

    They need no token: they contain nothing of a corpus. All addresses in the page are relative, so that it also works
    where the server is mounted below a prefix.

    Example:
        >>> [route.path for route in page_routes()][:2]
        ['/', '/page/page.css']
    """
    places = {"/": "index.html", **{f"/page/{name}": name for name in _ASSETS}}
    return [Route(path, _answer_with(name), methods=["GET"]) for path, name in places.items()]


def _answer_with(name: str) -> Callable[[Request], Awaitable[Response]]:
    content = files("airw.serving.page").joinpath(name).read_bytes()
    media_type = _TYPES[name.rpartition(".")[2]]

    async def answer(_: Request) -> Response:
        return Response(content, headers=_HEADERS, media_type=media_type)

    return answer
