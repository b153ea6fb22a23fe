"""What goes wrong when a module is built."""

import tvm_ffi


@tvm_ffi.error.register_error
class BuildError(Exception):
    """A kernel cannot be built. TVM keeps the class of errors that it knows."""
