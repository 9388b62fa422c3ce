"""The confidentiality edits of 1990 and 2000, and targeted record swapping."""
