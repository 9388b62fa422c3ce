"""Synthetic test decks: no real person in them."""
