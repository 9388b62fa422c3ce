"""Who may talk to the workbench: the person who has its token, from a page of its own, on this machine.

A page of the open web can reach loopback: by a name that it points there (rebinding), which the Host check
refuses, or by a form that it sends there, which the Origin check and the Strict cookie refuse.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import sys
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import MutableHeaders
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sfumato.workbench.errors import defect, error_page

CSP = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
REPORT_CSP = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
"""Of a report: a file of its own with its style inside, without script, link or form."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer a browser would hide the Origin of its own forms
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
SAFE_METHODS = ("GET", "HEAD")


def new_token() -> str:
    return secrets.token_urlsafe(32)


class Guard:
    """The checks before every request, and the headers of every answer."""

    def __init__(self, app: ASGIApp, *, token: str, host: str, port: int) -> None:
        self.app, self.token = app, token
        names = {"127.0.0.1", "localhost", "[::1]"}
        if host not in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "::"):
            names.add(f"[{host}]" if ":" in host else host.casefold())
        elif host in ("0.0.0.0", "::"):
            names |= _own_names()
        self.hosts = {f"{name}:{port}" for name in names}
        if port == 80:
            self.hosts |= names
        self.cookie = f"sfumato-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no other kind of connection is spoken

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("content-security-policy", CSP)
            await send(message)

        headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        answer = self._refusal(scope, headers)
        try:
            await (answer or self.app)(scope, receive, with_headers)
        except Exception as problem:  # its page is sent; a traceback could quote values of the file
            sys.stderr.write(f"sfumato workbench: {defect(problem)}\n")

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> ASGIApp | None:
        if headers.get("host", "").casefold() not in self.hosts:
            return error_page(421, "This isn't the workbench's address. Use the one that the terminal shows.")
        method = scope["method"]
        if method not in (*SAFE_METHODS, "POST"):
            return error_page(405, "The workbench doesn't do that.")
        if (
            method == "POST"
            and headers.get("origin", "").casefold() != f"http://{headers['host']}".casefold()
        ):
            return error_page(403, "This change came from another page. Nothing was changed.")
        if headers.get("sec-fetch-site") == "cross-site" and method == "POST":
            return error_page(403, "This change came from another page. Nothing was changed.")
        if self._known(headers.get("cookie", "")):
            return None
        given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [""])[0]
        if method == "GET" and given and hmac.compare_digest(given.encode(), self.token.encode()):
            answer = RedirectResponse("/", status_code=303)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="strict", path="/")
            return answer
        return error_page(
            403, "This page was opened without its token. Use the address that the terminal shows."
        )

    def _known(self, cookies: str) -> bool:
        try:
            held = SimpleCookie(cookies).get(self.cookie)
        except CookieError:
            return False
        return held is not None and hmac.compare_digest(held.value.encode(), self.token.encode())


def _own_names() -> set[str]:
    """The names and numbers of this machine, where it listens on all of them."""
    import socket

    names = {socket.gethostname().casefold()}
    with contextlib.suppress(OSError):
        names |= {str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)}
    return {f"[{n}]" if ":" in n else n for n in names}
