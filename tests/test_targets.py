"""Specs that travel inside TVM targets."""

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

import collage_dsl as collage
from collage_dsl.backends.tvm_target import tvm_target
from collage_dsl.graph import Option
from collage_dsl.resources import folder
from collage_dsl.targets.attach import ATTRIBUTE, TargetError, embedded
from tests.cases import cases

KINDS = ("llvm", "c", "cuda", "rocm", "vulkan", "opencl", "metal", "hexagon", "webgpu", "nvptx")


def spec_for(kind: str = "llvm") -> collage.FusionSpec:
    text = (
        "collage 1;\nrule all = union(op_call_by_kind(), op_call_by_kind(opaque));\n"
        f"target t on {kind} {{ rules all; fallback; }}"
    )
    return collage.load(text=text)["t"]


def saved_and_loaded(target: Any) -> Any:
    return tvm.ir.load_json(tvm.ir.save_json(target))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "journey",
    [
        lambda target: target,
        lambda target: tvm.target.Target(str(target)),
        lambda target: tvm.target.Target(target.export()),
        saved_and_loaded,
        lambda target: pickle.loads(pickle.dumps(target)),
        lambda target: target.with_host(tvm.target.Target({"kind": "llvm"})),
    ],
    ids=["itself", "str", "export", "save_json", "pickle", "with_host"],
)
def test_a_spec_survives_every_journey_of_a_target(
    kind: str, journey: Callable[[Any], Any]
) -> None:
    target = collage.attach({"kind": kind}, spec_for(kind))

    assert collage.extract(journey(target)) == spec_for(kind)


@pytest.mark.parametrize("name", ["native", "onnxruntime"])
def test_the_shipped_specs_can_travel(name: str) -> None:
    spec = next(iter(collage.load(folder("specs") / f"{name}.collage").values()))

    assert collage.extract(collage.attach({"kind": "llvm"}, spec)) == spec


def test_a_target_with_a_spec_can_be_compiled_for() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.nn.relu(x))
        builder.emit_func_output(y)

    assert tvm.compile(builder.get(), collage.attach("llvm", spec_for())) is not None


def test_a_target_may_carry_several_specs() -> None:
    library = replace(spec_for(), target=replace(spec_for().target, name="library"))
    target = saved_and_loaded(collage.attach("llvm", spec_for(), library))

    assert collage.extract_all(target) == collage.gather_all(target) == (spec_for(), library)
    assert collage.extract_all(collage.attach(target, library)) == (library,)
    for one in (collage.extract, collage.gather):
        with pytest.raises(TargetError, match="carries 2 specs"):
            one(target)
    with pytest.raises(TargetError, match="no spec is given"):
        collage.attach(target)


def test_the_options_of_the_target_stay() -> None:
    target = collage.attach({"kind": "llvm", "num-cores": 3}, spec_for())

    assert target.export()["num-cores"] == 3
    assert target.features.fusion_spec == collage.to_text(spec_for())


@pytest.mark.parametrize(
    "journey", [lambda target: target, lambda target: target.export(), saved_and_loaded]
)
def test_options_that_are_lists_survive_in_the_target_and_in_the_spec(
    journey: Callable[[Any], Any],
) -> None:
    text = 'target t on llvm(libs: ["onednn", "blas"], cl_opt: []) { rules op_call_by_kind(); }'
    spec = collage.load(text=f"collage 1;\n{text}")["t"]
    options = embedded(spec)

    target = journey(tvm.target.Target(options))

    assert (options["libs"], options["cl-opt"]) == (["onednn", "blas"], [])
    assert json.loads(json.dumps(options)) == options
    assert collage.extract(target) == spec
    assert spec.target.options == {"libs": ("onednn", "blas"), "cl_opt": ()}
    assert list(tvm_target(spec.target).attrs["libs"]) == ["onednn", "blas"]


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
options = st.fixed_dictionaries(
    {},
    optional={
        "libs": st.lists(words, max_size=3).map(tuple),
        "cl_opt": st.lists(words, max_size=3).map(tuple),
        "model": words.filter(bool),
        "num_cores": st.integers(1, 64),
        "fast_math": st.booleans(),
    },
)


@cases(30)
@given(options)
def test_options_come_back_from_a_target_as_they_were(said: dict[str, Option]) -> None:
    spec = spec_for()
    spec = replace(spec, target=replace(spec.target, options=said))

    target = saved_and_loaded(tvm.target.Target(json.loads(json.dumps(embedded(spec)))))

    assert collage.extract(target) == spec
    plain = {name: value for name, value in target.export().items() if name != ATTRIBUTE}
    assert collage.gather(plain).target.options == said


def test_attaching_again_replaces_the_spec() -> None:
    target = collage.attach({"kind": "llvm"}, spec_for())
    other = collage.load(text="collage 1;\ntarget other on llvm { rules op_call_by_kind(); }")

    replaced = collage.attach(target, other["other"])

    assert collage.extract(replaced) == other["other"]


def test_a_target_without_a_spec_gives_none() -> None:
    assert collage.extract(tvm.target.Target({"kind": "llvm"})) is None


@pytest.mark.parametrize("option", ["fusion_spec", "partition_rule"])
def test_a_spec_written_the_original_way_is_told_the_new_one(option: str) -> None:
    with pytest.raises(TargetError, match=r"collage\.attach") as caught:
        collage.extract({"kind": "llvm", option: "collage 1;"})

    assert ATTRIBUTE in str(caught.value)


def test_a_spec_for_another_kind_of_target_is_refused() -> None:
    with pytest.raises(TargetError, match="`t` is a spec for cuda, the target is llvm"):
        collage.attach({"kind": "llvm"}, spec_for("cuda"))
    text = collage.to_text(spec_for("cuda"))
    with pytest.raises(TargetError, match="`t` is a spec for cuda, the target is llvm"):
        collage.extract(tvm.target.Target({"kind": "llvm", ATTRIBUTE: text}))


@pytest.mark.parametrize("value", [3, ["collage 1;"], True])
def test_a_feature_that_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(TargetError, match=f'"{ATTRIBUTE}" of a target is the text of a spec'):
        collage.extract(tvm.target.Target({"kind": "llvm", ATTRIBUTE: value}))


def test_a_target_that_has_lost_one_of_its_specs_is_refused() -> None:
    first, second = (spec_for("llvm") for _ in range(2))
    options = dict(collage.attach({"kind": "llvm"}, first, second).export())
    del options[ATTRIBUTE]

    with pytest.raises(TargetError, match=f'has "{ATTRIBUTE}_2", but no "{ATTRIBUTE}"'):
        collage.extract(options)


def test_only_a_spec_can_be_attached() -> None:
    with pytest.raises(TargetError, match="not a value of type str"):
        collage.attach({"kind": "llvm"}, "native")


def test_a_feature_that_is_no_spec_is_refused_with_its_diagnostics() -> None:
    target = tvm.target.Target({"kind": "llvm", ATTRIBUTE: "collage 1;\nrule a = ;"})

    with pytest.raises(collage.RuleError, match="fusion_spec of a target:2:10"):
        collage.extract(target)


def test_a_target_that_tvm_refuses_gets_no_spec() -> None:
    with pytest.raises(TargetError, match=r"TVM refuses the target: Unknown config option 'no'$"):
        collage.attach({"kind": "llvm", "no": 1}, spec_for())
