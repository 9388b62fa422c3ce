"""Plans: the whole recipe in one TOML file."""

from sfumato.plan.plan import Plan

__all__ = ["Plan"]
