"""`collage.pipeline`: run the four steps inside `tvm.compile`, then build the chosen kernels."""

from collections.abc import Sequence
from typing import Any

from collage_dsl.backends.base import Backend
from collage_dsl.cost import CostSources
from collage_dsl.engine.partition import CollagePartition
from collage_dsl.realization.lower import whole_pipeline


def pipeline(
    targets: Sequence[Any] | None = None,
    cost: CostSources | None = None,
    *,
    backends: Sequence[Backend] = (),
    **options: Any,
) -> Any:
    """
    A `relax_pipeline` for `tvm.compile` that chooses kernels and builds the chosen ones.

        tvm.compile(module, target, relax_pipeline=collage.pipeline(["native", "onnxruntime"]))

    It is `CollagePartition` with the same arguments, after `ConvertToDataflow` of TVM, which makes
    larger dataflow blocks, and then `lowering`. Without `targets` the specs are those of TVM's
    current target and of the virtual devices of the module. This is the same as
    `relax_pipeline="collage"`.
    """
    chosen = CollagePartition(targets, cost, backends=backends, **options)
    return whole_pipeline(chosen, backends)
