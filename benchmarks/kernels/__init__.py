"""The parts of `native_kernels.py`."""
