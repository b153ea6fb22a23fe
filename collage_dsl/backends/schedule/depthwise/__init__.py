"""Depthwise convolutions together with the pointwise convolutions before and after them."""
