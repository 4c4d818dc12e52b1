"""A site whose only page is a long file; below /killed its process is killed on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import django
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, StreamingHttpResponse

django.setup(set_prefix=False)


def _send(request: HttpRequest) -> StreamingHttpResponse:
    from dashboard.arrow.writing_process import write_table
    from tests.dashboard.arrow.test_writing_process import find_programs, make_long_table

    def break_off() -> Iterator[bytes]:
        pieces = write_table(make_long_table(), "arrow")
        yield next(pieces)
        if request.path == "/killed":
            os.kill(find_programs()[0], signal.SIGKILL)
        yield from pieces

    return StreamingHttpResponse(break_off())


class Application(WSGIHandler):
    """Django without its middleware: the file alone matters here."""

    def load_middleware(self, is_async: bool = False) -> None:
        def get_response(request: Any) -> StreamingHttpResponse:
            return _send(request)

        self._middleware_chain = get_response


application = Application()
