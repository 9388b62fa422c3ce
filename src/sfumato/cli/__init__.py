"""The command line: ``sfumato COMMAND``. One command a file, loaded only when it is called.

A command's module has ``HELP`` (one line), ``EXAMPLE``, ``add_arguments(parser)`` and ``run(args)``,
which returns the exit code: 0 done, 1 a limit or guarantee failed, 2 bad usage or bad input.
"""

from __future__ import annotations

import sys

from sfumato.cli.commands import present

_USAGE = """usage: sfumato COMMAND [options]

Soften the outlines, keep the picture: statistical disclosure limitation for microdata.

commands:
{commands}

  sfumato COMMAND --help     what a command does, with an example
  sfumato --version          the version

in one go:
  sfumato protect people.csv --out release    finds a plan that meets the limits of a public file

step by step:
  sfumato init people.csv                     writes people.toml, to be read and edited
  sfumato check people.toml                   finds every mistake in it
  sfumato run people.toml --out release       masks, measures, and writes the release
"""


def main(argv: list[str] | None = None) -> int:
    """Run one command; the exit code is returned."""
    words = sys.argv[1:] if argv is None else argv
    if not words or words[0] in ("-h", "--help", "help"):
        print(_usage(), end="")
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        from sfumato import __version__

        print(f"sfumato {__version__}")
        return 0
    from sfumato.cli.command import call

    return call(words[0], words[1:])


def _usage() -> str:
    there = present()
    return _USAGE.format(commands="\n".join(f"  {name:<12} {help_}" for name, help_ in there.items()))


def run() -> None:
    """The console script."""
    sys.exit(main())
