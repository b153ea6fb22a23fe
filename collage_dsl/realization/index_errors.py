"""What a kernel calls for an index that is out of range."""

import tvm_ffi

from collage_dsl.realization.signature import InputError

INDEX_OUT_OF_RANGE = "collage.index_out_of_range"
"""The name by which kernels find the function. It is in saved models: it never changes."""


def prepare_index_errors() -> None:
    """Let kernels find the function. Call it before a kernel runs."""
    tvm_ffi.register_global_func(INDEX_OUT_OF_RANGE, _index_out_of_range, override=True)


def _index_out_of_range(operator: str, index: int, first: int, end: int) -> None:
    valid = f"valid are {first} to {end - 1}" if end else "the axis has no elements"
    raise InputError(f"{operator}: index {index} is out of range, {valid}")
