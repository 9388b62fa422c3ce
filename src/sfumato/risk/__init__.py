"""Risk measures and attacks: one a file, found by themselves (see ``sfumato.registry``)."""
