"""The commands there are. Their modules load when they are called."""

from __future__ import annotations

# Name → what it does. The only list of commands; the modules themselves load when they are called.
COMMANDS = {
    "demo": "attack the housing deck as it is, as the paper masks it, and as protect finds it",
    "init": "write a first, commented plan for a data file",
    "protect": "find the plan of least loss that meets limits, carry it out and write the release",
    "check": "find every mistake in a plan without running it",
    "risk": "show every risk by name, before and after the plan's recodes",
    "run": "carry out a plan and write the release",
    "attack": "attack the masked file as an intruder would",
    "compare": "run a plan over a grid of parameters and draw the risk-utility map",
    "safe": "make a table safe: every cell empty or large enough",
    "report": "write the report of a release again",
    "warm": "compile every kernel now, so that no later command waits for the compiler",
    "reproduce": "rerun the tables of the papers, and write what was printed beside what we get",
    "workbench": "open the workbench in the browser",
    "completion": "print the shell's completion script",
}


def present() -> dict[str, str]:
    """The commands whose module is there."""
    from importlib.util import find_spec

    return {name: help_ for name, help_ in COMMANDS.items() if find_spec(f"sfumato.cli.{name}")}
