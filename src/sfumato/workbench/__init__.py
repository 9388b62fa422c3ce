"""The workbench: a page on this machine that edits a plan and runs it; see ``docs/workbench.md``."""
