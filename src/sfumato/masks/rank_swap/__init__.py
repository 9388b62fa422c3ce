"""Rank swapping under control (Moore)."""
