"""Start the workbench: a socket on this machine, a token of its own, and the browser."""

from __future__ import annotations

import contextlib
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from sfumato.errors import InputError
from sfumato.workbench.app import make_app
from sfumato.workbench.bench import Workbench
from sfumato.workbench.security import new_token


def serve(
    file: str | None,
    *,
    folder: Path,
    host: str = "127.0.0.1",
    port: int = 0,
    audience: str = "public",
    propose: bool = True,
    browser: bool = True,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve until interrupted. The address with the token is told once, when the page can be reached."""
    bench = Workbench(folder, audience=audience, propose=propose)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as problem:
        listener.close()
        raise InputError(
            f"the workbench can't listen on port {port} of {host}: {problem.strerror}",
            hint="leave --port out to take a free one",
        ) from None
    with contextlib.closing(listener):
        bound = int(listener.getsockname()[1])
        token = new_token()
        if file is not None:
            bench.open(file)
        shown = (
            "127.0.0.1" if host in ("0.0.0.0", "::", "127.0.0.1") else f"[{host}]" if ":" in host else host
        )
        address = f"http://{shown}:{bound}/?token={token}"
        # No access log: addresses could hold the token.
        config = uvicorn.Config(
            make_app(bench, token=token, host=host, port=bound),
            log_level="error",
            access_log=False,
            server_header=False,
            lifespan="on",
            timeout_graceful_shutdown=2,
        )
        server = uvicorn.Server(config)
        tell(f"the workbench is at {address}")
        tell("it is open to this machine alone; Ctrl-C ends it, and the session is kept")
        if browser:
            threading.Timer(0.6, webbrowser.open, (address,)).start()
        try:
            server.run(sockets=[listener])
        finally:
            bench.close()
