"""Coarser codes: global recoding, and digits cut off."""
