"""The page over HTTP, on the loopback address alone.

Other users of the machine can reach that address, too, and so can pages in the browser that name it by a host of their own. So every
address has a token that cannot be guessed, and the Host header is checked. The page asks nothing of anybody else.
"""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from streamtime.explore.study import Durations, Study

LOOPBACK, HOSTS = "127.0.0.1", ["127.0.0.1", "localhost"]
PAGE = Path(__file__).parent / "page"
FILES = {"": ("index.html", "text/html"), "explore.js": ("explore.js", "text/javascript"), "explore.css": ("explore.css", "text/css")}
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
LOST = "There is nothing here. The whole address, with its token, stands where `streamtime explore` was started.\n"
MOST = 10_000  # bytes of a question


class Missing(ImportError):
    """A package is missing; the message says what to install."""


def application(study: Study, token: str, say: Callable[[BaseException, str], str]) -> Starlette:
    """The page, its files, and its questions; `say` puts an error into words. Raises Missing."""
    try:
        from starlette.applications import Starlette
        from starlette.concurrency import run_in_threadpool
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.responses import JSONResponse, PlainTextResponse
        from starlette.responses import Response as Answer
        from starlette.routing import Route
    except ImportError:
        raise Missing("explore needs starlette and uvicorn, which are missing: in a clone, pip install '.[explore]'") from None

    def known(request: Request) -> bool:
        return secrets.compare_digest(request.path_params["token"].encode(), token.encode())

    async def file(request: Request) -> Response:
        kind = FILES.get(request.path_params["file"])
        if not known(request) or kind is None:
            return PlainTextResponse(LOST, 404, HEADERS)
        return Answer((PAGE / kind[0]).read_bytes(), media_type=kind[1], headers=HEADERS)

    async def picture(request: Request) -> Response:
        if not known(request):
            return PlainTextResponse(LOST, 404, HEADERS)
        try:
            body = await request.body()
            durations = durations_of(await request.json() if len(body) <= MOST else None)
        except ValueError as problem:
            return JSONResponse({"error": str(problem)}, 400, HEADERS)
        try:
            return JSONResponse(await run_in_threadpool(study.answer, durations), headers=HEADERS)
        except Exception as problem:  # whatever it is, the page says it in words
            return JSONResponse({"error": say(problem, study.text)}, 422, HEADERS)

    async def progress(request: Request) -> Response:
        if not known(request):
            return PlainTextResponse(LOST, 404, HEADERS)
        return JSONResponse(await run_in_threadpool(study.progress), headers=HEADERS)

    return Starlette(
        routes=[
            Route("/{token}/picture", picture, methods=["POST"]),
            Route("/{token}/progress", progress),
            Route("/{token}/{file:path}", file),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=HOSTS, www_redirect=False)],
    )


def serve(study: Study, port: int, say: Callable[[BaseException, str], str], started: Callable[[str], None]) -> None:
    """Answers until it is interrupted; `started` is told the address. Raises Missing, or OSError where the port is taken."""
    token = secrets.token_urlsafe(24)
    app = application(study, token, say)
    import uvicorn

    with socket.create_server((LOOPBACK, port)) as listening:
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, lifespan="off")
        started(f"http://{LOOPBACK}:{listening.getsockname()[1]}/{token}/")
        uvicorn.Server(config).run(sockets=[listening])


def durations_of(asked: Any) -> Durations:
    """The durations in a question. Raises ValueError where there is something else."""
    if not isinstance(asked, dict) or not all(m is None or (type(m) is int and 0 <= m < 2**53) for m in asked.values()):
        raise ValueError('expected an object of durations in microseconds, such as {"within": 600000000}')
    return asked
