"""Probabilistic record linkage: compare, fit, weigh, assign, judge."""
