"""Is the server there? GET /health answers in JSON: 200 while it serves, 503 before and after. No names, no statements."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE = 5  # seconds that a client may take to ask


def start(host: str, port: int, state: Callable[[], dict[str, Any]]) -> ThreadingHTTPServer:
    """Answer from now on, in threads of its own. `state` gives what to say; its `status` is 'serving' if all is well.

    Raises:
        OSError: the address cannot be had.
    """

    class Answer(BaseHTTPRequestHandler):
        timeout = PATIENCE

        def do_GET(self) -> None:
            answer = state() if self.path.partition("?")[0] == "/health" else None
            code = 404 if answer is None else 200 if answer["status"] == "serving" else 503
            said = json.dumps(answer or {"error": "there is /health, and nothing else"}).encode() + b"\n"
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as there
            """A probe every few seconds is nothing to log."""

    server = ThreadingHTTPServer((host, port), Answer)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="streamtime-health", daemon=True).start()
    return server
