"""Winograd convolution: fewer multiplications, between transforms of small tiles."""
