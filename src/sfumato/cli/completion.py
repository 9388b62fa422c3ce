"""``sfumato completion SHELL``."""

from __future__ import annotations

import argparse
import importlib

from sfumato.cli.command import OK, say
from sfumato.cli.commands import COMMANDS, present

HELP = "print the shell's completion script"
EXAMPLE = """  sfumato completion bash > ~/.local/share/bash-completion/completions/sfumato
  sfumato completion zsh > "${fpath[1]}/_sfumato\""""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"], help="the shell")


def run(args: argparse.Namespace) -> int:
    try:
        import shtab
    except ImportError:
        from sfumato.errors import InputError

        hint = "pip install 'sfumato[completion]'"
        raise InputError("completion needs the package shtab", hint=hint) from None
    parser = argparse.ArgumentParser(prog="sfumato")
    commands = parser.add_subparsers(dest="command")
    for name in present():
        module = importlib.import_module(f"sfumato.cli.{name}")
        module.add_arguments(commands.add_parser(name, help=COMMANDS[name]))
    say(shtab.complete(parser, shell=args.shell))
    return OK
