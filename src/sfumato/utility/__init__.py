"""Utility measures: what analysts lose. One a file, found by themselves (see ``sfumato.registry``)."""
