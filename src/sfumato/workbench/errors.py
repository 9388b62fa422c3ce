"""Pages that say that something is wrong, without a path and without data."""

from __future__ import annotations

from html import escape

from starlette.responses import HTMLResponse


def error_page(status: int, words: str) -> HTMLResponse:
    """A page of one sentence, and a link back."""
    back = '<p><a href="/data">Back to the workbench</a></p>' if status not in (403, 421) else ""
    return HTMLResponse(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>sfumato workbench</title>'
        '<link rel="icon" href="/static/icon.svg"><link rel="stylesheet" href="/static/workbench.css"></head>'
        '<body><main id="content">'
        f'<h1>sfumato workbench</h1><div class="note bad"><p>{escape(words)}</p></div>{back}'
        "</main></body></html>",
        status_code=status,
    )


def defect(problem: BaseException) -> str:
    """A defect of ours in words: its kind and place, never its message, which may quote data."""
    trace, place = problem.__traceback__, "sfumato"
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.startswith("sfumato"):
            place = f"{module}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return f"a defect ({type(problem).__name__} in {place}); please report it"
