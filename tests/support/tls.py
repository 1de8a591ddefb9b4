"""A proxy that has TLS, before a port that has none: what docs/serve.md asks for where Spark Connect is reached from other machines."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def proxy(pem: Path, host: str, port: int) -> Iterator[int]:
    """Listens on any free port of this machine, with the key and the certificate of a file; gives that port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    context.set_alpn_protocols(["h2"])  # gRPC is HTTP/2, and asks for it by name

    async def through(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ssl.SSLError):
            while data := await read.read(1 << 16):
                write.write(data)
                await write.drain()
        write.close()

    async def met(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, port)
        await asyncio.gather(through(read, back), through(there, write))

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(met, "127.0.0.1", 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(ended(server), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


async def ended(server: asyncio.Server) -> None:
    """With what it still passes through."""
    server.close()
    going = asyncio.all_tasks() - {asyncio.current_task()}
    for task in going:
        task.cancel()
    await asyncio.gather(*going, return_exceptions=True)
