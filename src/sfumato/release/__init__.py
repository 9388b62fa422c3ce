"""Releases: two bundles, whole or not at all."""

from sfumato.release.write import Release, write_release

__all__ = ["Release", "write_release"]
