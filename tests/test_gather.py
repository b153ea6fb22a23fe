"""The spec of a TVM target: its own, that of its compiler, or the native one."""

from typing import Any

import pytest
import tvm

import collage_dsl as collage
from collage_dsl.resources import shipped_spec
from collage_dsl.targets.attach import TargetError

OWN = "collage 1;\ntarget mine on llvm { rules op_call_by_kind(elementwise); }\n"


def shipped(name: str) -> Any:
    return collage.load(shipped_spec(name))


def test_the_spec_that_a_target_carries_comes_first() -> None:
    spec = collage.load(text=OWN)["mine"]
    target = collage.attach({"kind": "llvm", "feature.compiler": "onnxruntime"}, spec)

    assert collage.gather(target) == spec


@pytest.mark.parametrize("name", ["onnxruntime", "onednn", "openvino"])
def test_then_comes_the_shipped_spec_of_its_compiler(name: str) -> None:
    found = collage.gather({"kind": "llvm", "feature.compiler": name})

    assert found == shipped(name)[name]
    assert found.target.compiler == name


def test_then_comes_the_native_spec() -> None:
    assert collage.gather("llvm") == shipped("native")["tvm"]


def test_the_options_of_the_target_count_and_not_those_that_tvm_adds() -> None:
    target = tvm.target.Target({"kind": "llvm", "mcpu": "skylake-avx512", "num-cores": 2})

    options = collage.gather(target).target.options

    assert options == {"mcpu": "skylake-avx512", "num_cores": 2}


def test_the_kind_is_that_of_the_target() -> None:
    assert collage.gather({"kind": "cuda", "arch": "sm_90"}).target.kind == "cuda"


def test_a_compiler_without_a_spec_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(TargetError, match=r"`onedn` \(there are .*onednn"):
        collage.gather({"kind": "llvm", "feature.compiler": "onedn"})


def test_a_compiler_where_tvm_refuses_it_is_refused_with_what_to_write() -> None:
    with pytest.raises(TargetError, match=r'write "feature\.compiler"'):
        collage.gather({"kind": "llvm", "compiler": "onednn"})


def test_options_that_a_spec_cannot_say_are_not_lost_in_silence() -> None:
    with pytest.raises(TargetError, match="cannot say the option `mattr`"):
        collage.gather({"kind": "llvm", "mattr": ["+avx2"]})
