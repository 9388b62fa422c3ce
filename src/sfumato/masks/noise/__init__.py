"""Additive noise, mixture noise and controlled distortion."""
