"""Modules built plainly by TVM, and what they compute."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

Array = np.ndarray[Any, Any]

LLVM = tvm.target.Target({"kind": "llvm"})

FUSE = tvm.transform.Sequential(
    [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]
)

LEGALIZE = relax.transform.LegalizeOps()


def pipeline(kernels: Any) -> Any:
    """
    TVM's own passes for CPUs, with `kernels` for fusion.

    Without StaticPlanBlockMemory, which crashes on what is in the branches of an `If`.
    """
    return tvm.transform.Sequential(
        [
            relax.transform.RunCodegen(),
            relax.backend.DispatchSortScan(),
            kernels,
            relax.transform.ToNonDataflow(),
            relax.transform.RemovePurityChecking(),
            relax.transform.CallTIRRewrite(),
            relax.transform.LowerAllocTensor(),
            relax.transform.KillAfterLastUse(),
            relax.transform.LowerRuntimeBuiltin(),
            relax.transform.ComputePrimValue(),
            relax.transform.VMShapeLower(),
            relax.transform.AttachGlobalSymbol(),
        ]
    )


def run(module: tvm.IRModule, *arguments: Any, **options: Any) -> list[Array]:
    """The tensors that `main` returns, tuples flattened."""
    return started(module, **options)(*arguments)


def started(
    module: tvm.IRModule, *, kernels: Any = FUSE, devices: Sequence[Any] = (tvm.cpu(),)
) -> Callable[..., list[Array]]:
    """`main` in a virtual machine that may be asked several times."""
    executable = tvm.compile(module, LLVM, relax_pipeline=pipeline(kernels))
    main = relax.VirtualMachine(executable, list(devices))["main"]
    return lambda *arguments: _tensors(main(*map(_argument, arguments)))


def _argument(value: Any) -> Any:
    if isinstance(value, tuple):
        return tvm.runtime.convert([_argument(each) for each in value])
    return tvm.runtime.tensor(value)


def _tensors(value: Any) -> list[Array]:
    if hasattr(value, "numpy"):
        return [value.numpy()]
    return [tensor for field in value for tensor in _tensors(field)]


def assert_same_results(
    new: tvm.IRModule, old: tvm.IRModule, *arguments: Any, **options: Any
) -> None:
    results = [run(module, *arguments, **options) for module in (new, old)]
    for actual, expected in zip(*results, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
