"""The frame around every command: arguments, errors as sentences, warnings as lines, exit codes."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NoReturn

from sfumato.cli.commands import COMMANDS, present
from sfumato.errors import GuaranteeError, InputError, SfumatoError, SfumatoWarning, did_you_mean
from sfumato.waiting import listening

OK, FAILED, BAD = 0, 1, 2


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and where help is."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD, f"{self.prog}: {message}\n  hint: {self.prog} --help shows what it takes\n")


def parser_for(name: str, module: ModuleType) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"sfumato {name}",
        description=module.HELP[:1].upper() + module.HELP[1:] + ".",
        epilog=f"example:\n{module.EXAMPLE.rstrip()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_arguments(parser)
    return parser


def call(name: str, words: list[str]) -> int:
    """Run a command; whatever goes wrong, no traceback reaches a person (unless SFUMATO_DEBUG is set)."""
    if name not in COMMANDS or name not in present():
        hint = did_you_mean(name, present())
        print(f"sfumato: there is no command {name!r}\n  hint: {hint}", file=sys.stderr)
        return BAD
    json_asked = "--json" in words
    _stop_when_asked()
    try:
        with listening(_show_waiting), warnings.catch_warnings():
            warnings.simplefilter("default", SfumatoWarning)
            warnings.showwarning = _show_warning
            module = importlib.import_module(f"sfumato.cli.{name}")
            args = parser_for(name, module).parse_args(words)
            code = int(module.run(args))
        sys.stdout.flush()
        return code
    except SystemExit as stop:
        return int(stop.code) if isinstance(stop.code, int) else BAD
    except SfumatoError as problem:
        if os.environ.get("SFUMATO_DEBUG"):
            raise
        code = FAILED if isinstance(problem, GuaranteeError) else BAD
        if json_asked:
            print(json.dumps({"ok": False, "error": problem.message, "hint": problem.hint}))
        print(plain(f"sfumato {name}: {problem}"), file=sys.stderr)
        return code
    except KeyboardInterrupt:
        print(f"\nsfumato {name}: stopped; nothing was released", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except MemoryError:
        print(f"sfumato {name}: the memory isn't enough for this file; nothing was released", file=sys.stderr)
        return BAD
    except Exception as problem:
        if os.environ.get("SFUMATO_DEBUG"):
            raise
        # A defect of ours. Its message may quote data, so only its kind and place are told.
        place = _place(problem)
        print(
            f"sfumato {name}: a defect ({type(problem).__name__} in {place}); nothing was released\n"
            "  hint: please report it; SFUMATO_DEBUG=1 shows the traceback (which may show data)",
            file=sys.stderr,
        )
        return BAD


def _stop_when_asked() -> None:
    """Let a request to end (SIGTERM) end the work as a person would: nothing is left behind."""

    def stop(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    with contextlib.suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGTERM, stop)


def _place(problem: BaseException) -> str:
    trace, place = problem.__traceback__, "sfumato"
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.startswith("sfumato"):
            place = f"{module}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    if isinstance(message, SfumatoWarning):
        print(plain(f"warning: {message}"), file=sys.stderr)


def _show_waiting(text: str) -> None:
    """On a terminal somebody waits; in a pipe nobody does."""
    if sys.stderr.isatty():
        clear = "\r\x1b[2K"  # a bar may stand on this line; it is drawn again below
        print(clear + plain(f"… {text}"), file=sys.stderr, flush=True)


def refuse_same(source: str, *targets: str | None) -> None:
    """An error where a file would be written over what it is made from, or over another of its kind."""
    seen = {os.path.realpath(source): "the input"}
    for target in targets:
        if target is None:
            continue
        place = os.path.realpath(target)
        if place in seen:
            raise InputError(
                f"{target} is {seen[place]}; nothing was written", hint="choose another name for the output"
            )
        seen[place] = "already the name of another output"


_CONTROL = {c: "\N{REPLACEMENT CHARACTER}" for c in (*range(32), *range(127, 160)) if chr(c) not in "\n\t"}


def plain(text: str) -> str:
    """The text without control characters: a column's name must not steer the terminal.

    >>> plain("INCOME\x1b[2J")
    'INCOME\ufffd[2J'
    """
    return text.translate(_CONTROL)


def say(*lines: str) -> None:
    """Lines for a person, on the standard output."""
    for line in lines:
        print(plain(line))


def print_json(content: Any) -> None:
    """One JSON document for a program."""
    print(json.dumps(content, indent=2, ensure_ascii=False, default=str, allow_nan=True))


QUIET = "no progress bar; off a terminal a line every ten seconds still says that it works"

EVERY = 10.0
"""Seconds between two signs of life where there is no terminal."""


@contextmanager
def progress(quiet: bool = False) -> Iterator[Any]:
    """A progress bar on a terminal unless ``quiet``; elsewhere a line every ten seconds, quiet or not.
    Yields a callback for ``Plan.run``."""
    if not sys.stderr.isatty():
        with _signs_of_life() as sign:
            yield sign
        return
    if quiet:
        yield None
        return
    from sfumato.cli.bar import Bar

    with Bar(sys.stderr) as bar:
        yield lambda what, done, parts: bar.tell(plain(what), done, parts)


@contextmanager
def _signs_of_life() -> Iterator[Any]:
    """What is being done, since when and about how long, every ten seconds: a log shows that it still works,
    and where."""
    import threading
    import time

    from sfumato.cli.bar import Pace
    from sfumato.waiting import duration

    pace, over = Pace(), threading.Event()

    def speak() -> None:
        while not over.wait(EVERY):
            words = f"sfumato: {time.monotonic() - pace.started:,.0f} s, {pace.what}"
            left = pace.seconds_left()
            if pace.parts:
                words += f" ({min(int(pace.done) + 1, pace.parts)} of {pace.parts}"
                words += ")" if left is None else f", about {duration(left)} left)"
            print(plain(words), file=sys.stderr, flush=True)

    voice = threading.Thread(target=speak, daemon=True)
    voice.start()
    try:
        yield pace.tell
    finally:
        over.set()
        voice.join()
