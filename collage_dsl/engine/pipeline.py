"""The four steps inside `tvm.compile`."""

from collections.abc import Sequence
from typing import Any

from collage_dsl.backends.base import Backend
from collage_dsl.engine.partition import CollagePartition
from collage_dsl.realization.lower import whole_pipeline


def pipeline(
    targets: Sequence[Any] | None = None,
    cost: Any = None,
    *,
    backends: Sequence[Backend] = (),
    **options: Any,
) -> Any:
    """
    The `relax_pipeline` of `tvm.compile` that chooses kernels and builds what was chosen.

        tvm.compile(module, target, relax_pipeline=collage.pipeline(["native", "onnxruntime"]))

    It is `CollagePartition` with the same arguments, after `ConvertToDataflow` of TVM, which makes
    larger dataflow blocks, and then `lowering`. Without `targets` the
    specs are those of the target that TVM compiles for, and of the virtual devices of the module:
    this is what `relax_pipeline="collage"` does.
    """
    chosen = CollagePartition(targets, cost, backends=backends, **options)
    return whole_pipeline(chosen, backends)
