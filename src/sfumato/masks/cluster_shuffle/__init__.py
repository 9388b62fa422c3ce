"""Cluster shuffle: values dealt out anew among records that are alike."""
