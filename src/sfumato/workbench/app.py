"""The workbench's addresses: six screens to read, and changes that are posted and lead back to a screen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from sfumato import __version__, drawing, report
from sfumato.errors import SfumatoError
from sfumato.workbench.bench import Workbench
from sfumato.workbench.changes import HANDLERS, Done, Sent
from sfumato.workbench.errors import defect, error_page
from sfumato.workbench.names import sentence, shown, shown_lines
from sfumato.workbench.rail import rail
from sfumato.workbench.screens.attack import attack_screen
from sfumato.workbench.screens.common import history_rows, safely
from sfumato.workbench.screens.compare import compare_screen
from sfumato.workbench.screens.data import data_screen
from sfumato.workbench.screens.keys import keys_screen
from sfumato.workbench.screens.protect import protect_screen
from sfumato.workbench.screens.release import release_screen
from sfumato.workbench.security import REPORT_CSP, Guard
from sfumato.workbench.session import BehindError

SCREENS = (
    ("data", "Data"),
    ("keys", "Keys and risk"),
    ("protect", "Protect"),
    ("attack", "Attack and utility"),
    ("compare", "Compare"),
    ("release", "Release"),
)
MOST_BYTES = 2_000_000
STATIC = {"workbench.css": "text/css", "workbench.js": "text/javascript", "icon.svg": "image/svg+xml"}


@cache
def templates() -> jinja2.Environment:
    folder = files("sfumato.workbench").joinpath("templates")
    texts = {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir() if p.name.endswith(".html")}
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(texts), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters |= {
        "shown": shown,
        "sentence": sentence,
        "shown_lines": shown_lines,
        "percent": drawing.percent,
        "tenths": drawing.tenths,
        "number": drawing.number,
        "commas": lambda v: "–" if v is None else f"{v:,}",
        "plural": drawing.plural,
        "size": _size,
        "loss": _loss,
    }
    environment.globals["span"] = drawing.span
    return environment


def _loss(value: float) -> str:
    """A loss, or another figure of utility: three decimals, as the rail has it; a large one as a number."""
    return f"{value:.3f}" if 0.0005 <= abs(value) < 10 else drawing.number(value)


def _size(n: int) -> str:
    return f"{n} B" if n < 1000 else f"{n / 1000:,.0f} kB" if n < 1_000_000 else f"{n / 1_000_000:,.1f} MB"


def page(bench: Workbench, name: str, request: Request) -> Response:
    """One screen, whole."""
    flashed = bench.flashed(request.query_params.get("said", ""))
    common: dict[str, Any] = {"version": __version__, "screens": SCREENS, "screen": name, "flash": flashed}
    if bench.session is None:
        html = templates().get_template("empty.html").render(**common, epoch=0, folder=bench.folder.name)
        return HTMLResponse(html)
    session, query = bench.session, request.query_params
    epoch = session.epoch
    make: dict[str, Callable[[], dict[str, Any]]] = {
        "data": lambda: data_screen(bench, query),
        "keys": lambda: keys_screen(bench, query),
        "protect": lambda: protect_screen(bench, query, flashed),
        "attack": lambda: attack_screen(bench, query, flashed),
        "compare": lambda: compare_screen(bench, query),
        "release": lambda: release_screen(bench, query, flashed),
        "plan": lambda: {
            "text": session.text,
            "problems": bench.problems(),
            "history": history_rows(bench),
        },
        "help": dict,
    }
    there = rail(bench)
    context = safely(make[name])
    answer = {
        **common,
        "bench": bench,
        "session": session,
        "hash": session.hash(),
        "epoch": epoch,
        "file": bench.opened.name if bench.opened is not None else "",
        "opened": bench.opened,
        "changed": bench.opened is not None and not bench.opened.reading and bench.opened.changed(bench.plan),
        "rail": there,
        "jobs": [j for j in bench.jobs.all if j.active],
        "behind": flashed.get("behind"),
        "back": request.url.path + (f"?{_kept(query)}" if _kept(query) else ""),
        **context,
    }
    template = "trouble.html" if "trouble" in context else f"{name}.html"
    return HTMLResponse(templates().get_template(template).render(**answer))


def _kept(query: Any) -> str:
    """The query without the message."""
    from urllib.parse import urlencode

    return urlencode([(k, v) for k, v in query.multi_items() if k not in ("said", "token")])


def _screen(name: str) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        return await run_in_threadpool(page, request.app.state.bench, name, request)

    return answer


def _handler(handle: Callable[[Workbench, Sent], Done]) -> Callable[[Request], Any]:
    async def answer(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return error_page(413, "That is more than a form of the workbench holds.")
        form = Sent(body.decode("utf-8", errors="replace"))
        return await run_in_threadpool(_changed, request.app.state.bench, handle, form)

    return answer


def _changed(bench: Workbench, handle: Callable[[Workbench, Sent], Done], form: Sent) -> Response:
    back = _safe_address(str(form.get("back", "/data")))
    try:
        done = handle(bench, form)
        held = {
            "toast": done.toast,
            "undo": done.undo,
            "error": done.error,
            "hint": done.hint,
            "more": done.more,
        }
        said: dict[str, Any] = {k: v for k, v in held.items() if v}
        to = done.to or back
    except BehindError as problem:
        said, to = {"behind": True, "error": problem.message}, back
    except SfumatoError as problem:
        said, to = {"error": sentence(problem.message), "hint": problem.hint}, back
    if said:
        address, _, place = to.partition("#")
        to = f"{address}{'&' if '?' in address else '?'}said={bench.flash(**said)}" + (
            f"#{place}" if place else ""
        )
    return RedirectResponse(to, status_code=303)


def _safe_address(back: str) -> str:
    """An address of this page, whatever the form said."""
    parts = urlsplit(back)
    known = {f"/{name}" for name, _ in SCREENS} | {"/plan", "/help"}
    if (
        parts.scheme
        or parts.netloc
        or parts.path not in known
        or "\\" in back
        or "\r" in back
        or "\n" in back
    ):
        return "/data"
    return parts.path + (f"?{parts.query}" if parts.query else "")


async def state(request: Request) -> Response:
    """Where the session is: for a page that watches jobs, or another tab."""
    bench: Workbench = request.app.state.bench
    session = bench.session
    jobs = [
        {
            "number": j.number,
            "title": j.title,
            "what": shown(j.what),
            "part": j.part,
            "parts": j.parts,
            "seconds": round(j.seconds),
        }
        for j in bench.jobs.all
        if j.active
    ]
    reading = bench.opened is not None and bench.opened.reading
    return JSONResponse(
        {"epoch": session.epoch if session is not None else 0, "jobs": jobs, "reading": reading}
    )


async def static(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "charts.css":
        return Response(drawing.rules(), media_type="text/css")
    if name not in STATIC:
        raise HTTPException(404)
    text = files("sfumato.workbench").joinpath("static").joinpath(name).read_text(encoding="utf-8")
    return Response(text, media_type=STATIC[name])


async def plan_file(request: Request) -> Response:
    bench: Workbench = request.app.state.bench
    return PlainTextResponse(bench.now.text if bench.session is not None else "")


async def reported(request: Request) -> Response:
    """The public or the internal report of the plan that stands, as the release will have it."""
    bench: Workbench = request.app.state.bench
    which = request.path_params["which"]
    found = bench.result("run") if bench.session is not None else None
    if which not in ("public", "internal") or found is None:
        raise HTTPException(404)
    html = await run_in_threadpool(report.html, found[which])
    return HTMLResponse(html, headers={"content-security-policy": REPORT_CSP})


async def first(request: Request) -> Response:
    return RedirectResponse("/data", status_code=303)


async def _not_found(request: Request, problem: Exception) -> Response:
    status = problem.status_code if isinstance(problem, HTTPException) else 404
    return error_page(status, "There is no such page.")


async def _broken(request: Request, problem: Exception) -> Response:
    return error_page(500, f"Something broke: {defect(problem)}. The plan is whole.")


def make_app(bench: Workbench, *, token: str, host: str = "127.0.0.1", port: int) -> ASGIApp:
    """The page, behind its guard."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> Any:
        yield
        bench.close()

    reads = [Route(f"/{name}", _screen(name)) for name, _ in SCREENS]
    posts = [Route(path, _handler(handle), methods=["POST"]) for path, handle in HANDLERS.items()]
    app = Starlette(
        routes=[
            Route("/", first),
            *reads,
            Route("/plan", _screen("plan")),
            Route("/help", _screen("help")),
            Route("/plan.toml", plan_file),
            Route("/report/{which}", reported),
            Route("/state", state),
            Route("/static/{name}", static),
            *posts,
        ],
        exception_handlers={404: _not_found, 405: _not_found, HTTPException: _not_found, 500: _broken},
        lifespan=lifespan,
    )
    app.state.bench = bench
    return Guard(app, token=token, host=host, port=port)
