"""Conditional group swapping (Oganian, Lesaja)."""
