"""Kernels: numba functions on plain arrays, nogil and cached. No frames, no strings.

Each has a slow, obvious twin in ``tests/reference`` that it is compared with.
"""
