"""The page of a server: a form, the hits as they arrive, and a drawing of the walk."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.serving.page.routes import page_routes as page_routes
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
