"""Kernels for GPUs, as far as they are built without one: the source that TVM makes of them."""

import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import tvm
from tvm import relax

import collage_dsl as collage
from collage_dsl.backends.registry import NATIVE_GPU, installed, native_name
from collage_dsl.graph import Toolchain
from collage_dsl.measuring.key import context_of
from collage_dsl.measuring.machine import is_here, this_machine
from collage_dsl.realization.kernel import BACKEND

CUDA = {"kind": "cuda", "arch": "sm_90"}


def code_of(executable: Any) -> str:
    """The CUDA code of an executable, which TVM compiles where there is a GPU."""

    def sources(module: Any) -> Iterator[str]:
        if module.kind == "cuda":
            yield module.inspect_source()
        for each in module.imports:
            yield from sources(each)

    return "\n".join(sources(executable.mod))


def built(module: tvm.IRModule, pipeline: Any = None) -> str:
    passes = pipeline or collage.lowering()
    return code_of(tvm.compile(module, tvm.target.Target(CUDA), relax_pipeline=passes))


def partitioned(text: str, target: dict[str, str] = CUDA) -> tvm.IRModule:
    graph = collage.parse_graph(text)
    spec = collage.gather(target)
    return collage.realize(collage.choose(graph, collage.propose(graph, spec), cost=cost))


def cost(kernel: collage.CandidateKernel) -> float:
    return 1e-5 + 1e-7 * len(kernel.nodes)


def kernels(code: str) -> int:
    """How many kernels have a body in the code."""
    return len(re.findall(r"__global__ void [^{};]*{", code))


MODELS = {
    "elementwise": ("x: f32[3, 5]; y = exp(x); z = nn.relu(y); return z;", 1),
    "product": ("x: f32[64, 32]; w: f32[32, 16]; y = matmul(x, w); z = nn.relu(y); return z;", 1),
    "convolution": ("x: f32[1, 3, 8, 8]; w: f32[4, 3, 3, 3]; y = nn.conv2d(x, w); return y;", 1),
    "maxima": ("x: f32[1, 3, 8, 8]; y = nn.max_pool2d(x) [pool_size = [2, 2]]; return y;", 1),
    "softmax": ("x: f32[8, 100]; y = nn.softmax(x); return y;", 1),
    "a sum of all": ("x: f32[7]; y = sum(x); z = exp(y); return z;", 2),
    "a minimum": ("x: f32[7, 3]; y = min(x) [axis = [1]]; return y;", 1),
    "places": ("x: f32[7, 3]; y = argmax(x) [axis = 1]; return y;", 1),
    "rows of a table": ("t: f32[9, 4]; i: i64[5]; y = take(t, i) [axis = 0]; return y;", 1),
}


@pytest.mark.parametrize(("text", "count"), MODELS.values(), ids=MODELS)
def test_each_kernel_is_code_of_the_gpu(text: str, count: int) -> None:
    assert kernels(built(partitioned(text))) == count


def test_calls_without_a_kernel_are_scheduled_too() -> None:
    """What no target covers is left to the pipeline, which lowers it for the same device."""
    block = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((3, 5), "float32"))
    with block.function("main", [x]):
        with block.dataflow():
            y = block.emit(relax.op.exp(x))
            z = block.emit_output(relax.op.nn.softmax(y))
        block.emit_func_output(z)
    spec = collage.load(text="collage 1; target t on cuda { rules op_call_by_kind(reduce); }")["t"]
    pipeline = collage.pipeline([collage.attach(CUDA, spec)], cost=cost)

    assert kernels(built(block.get(), pipeline)) >= 1


def test_names_of_a_model_are_no_names_of_c() -> None:
    x = relax.Var("0", relax.TensorType((3, 5), "float32"))
    y = relax.Var("größe", relax.TensorType((3, 5), "float32"))
    block = relax.BlockBuilder()
    with block.function("main", [x, y]):
        with block.dataflow():
            z = block.emit_output(relax.op.add(x, y))
        block.emit_func_output(z)

    code = built(block.get(), collage.pipeline([tvm.target.Target(CUDA)], cost=cost))

    assert kernels(code) == 1
    assert "v0_ptr[" in code
    assert "gr__e_ptr[" in code or "vgr__e_ptr[" in code


def test_numbers_are_not_read_as_integers() -> None:
    """C has no address of a number, which a reinterpretation takes."""
    code = built(partitioned("x: f32[7]; y = sign(x); z = round(y); return z;"))

    assert kernels(code) >= 1
    assert not re.search(r"&\(-?0x", code)


def test_a_power_takes_no_logarithm_of_a_negative_base() -> None:
    code = built(partitioned("x: f32[7]; p: f32[7]; y = power(x, p); return y;"))

    assert "fabsf(" in code


def test_groups_are_not_given_to_rules_for_reductions() -> None:
    """The threads of a block share the sums of these rules; `groups` divides the channels."""
    text = "x: f32[1, 4, 8, 8]; w: f32[8, 2, 3, 3]; y = nn.conv2d(x, w) [groups = 2]; return y;"

    assert "__shfl" not in built(partitioned(text))


def test_targets_on_gpus_have_a_backend_of_their_own() -> None:
    find = installed()

    assert [native_name(kind) for kind in ("llvm", "c", "cuda")] == ["tvm", "tvm", NATIVE_GPU]
    assert find(Toolchain("t", kind="cuda")) == find(Toolchain("t", kind="cuda", compiler="tvm"))
    assert find(Toolchain("t", kind="cuda")).variants == ()


def test_a_kernel_says_which_backend_makes_it() -> None:
    module = partitioned("x: f32[3]; y = exp(x); return y;")

    attributes = [dict(function.attrs or {}) for _, function in module.functions_items()]
    assert [each[BACKEND] for each in attributes if BACKEND in each] == [NATIVE_GPU]


def test_costs_are_those_of_one_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs may be beside equal processors."""

    def machine_with(gpu: str) -> str:
        device = SimpleNamespace(exist=True, device_name=gpu)
        monkeypatch.setattr(tvm.runtime, "device", lambda _kind: device)
        toolchain = Toolchain("t", kind="cuda")
        context = context_of(toolchain, installed()(toolchain))
        assert gpu in context.machine
        assert is_here(context.machine)
        return context.key

    assert machine_with("H100") == machine_with("H100") != machine_with("H200")


def test_costs_of_a_processor_do_not_depend_on_a_gpu() -> None:
    toolchain = Toolchain("t")

    assert this_machine().runs_on(toolchain) == this_machine().name
