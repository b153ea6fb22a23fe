"""
The spec of a TVM target: its own, that of its compiler, what its backend supports, or the native
one.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import tvm

import collage_dsl as collage
from collage_dsl.backends import registry
from collage_dsl.backends.base import Backend
from collage_dsl.backends.onnxruntime import OnnxRuntime
from collage_dsl.engine.named import UnknownTarget
from collage_dsl.engine.predicates import lookup
from collage_dsl.graph import Graph
from collage_dsl.language import parse_graph
from collage_dsl.language.resolve.pattern_tables import table, table_names
from collage_dsl.language.write.printer import patterns_of
from collage_dsl.resources import shipped_spec, shipped_specs
from collage_dsl.rules import Trace
from collage_dsl.targets.attach import TargetError
from tests.test_op_predicate import MODEL, Adder

OWN = "collage 1;\ntarget mine on llvm { rules op_call_by_kind(elementwise); }\n"


@dataclass(frozen=True, slots=True)
class Named(Backend):
    """A backend of any name."""

    name: str
    version: str = "1"

    def supports(self, graph: Graph) -> str | None:
        return None


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


@pytest.mark.parametrize("name", table_names())
def test_what_ships_for_a_compiler_that_tvm_has_patterns_for_is_that_table(name: str) -> None:
    (spec,) = shipped(name).values()
    target = {"kind": spec.target.kind, "feature.compiler": spec.target.compiler}

    assert collage.gather(target) == spec
    assert set(patterns_of(spec.rule)) == set(table(name).patterns.values())


def test_then_come_the_calls_that_a_backend_without_a_spec_supports() -> None:
    adder = Adder()
    found = collage.gather({"kind": "llvm", "feature.compiler": "adder"}, backends=[adder])
    graph = parse_graph(MODEL)
    proposed = found.candidates(graph, Trace(lookup=lookup(backends=[adder])))

    assert (found.name, found.target.compiler, found.coalesce) == ("adder", "adder", True)
    assert [candidate.nodes for candidate in proposed] == [{"a"}]
    assert 'rules op_predicate("adder.supports");' in collage.to_text(found)
    assert collage.load(text=collage.to_text(found))["adder"] == found


@dataclass(frozen=True, slots=True)
class AddEr(Adder):
    """An adder with a name that is no word of the language."""

    @property
    def name(self) -> str:
        return "add-er"


def test_a_backend_that_is_installed_needs_no_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = EntryPoint("add-er", "tests.test_gather:AddEr", "collage_dsl.backends")
    monkeypatch.setattr(registry, "declared", lambda group: {installed.name: installed})

    found = collage.gather({"kind": "llvm", "mcpu": "znver3", "feature.compiler": "add-er"})

    assert (found.name, found.target.compiler) == ("add_er", "add-er")
    assert found.target.options == {"mcpu": "znver3"}
    graph = parse_graph(MODEL)
    assert len(found.candidates(graph, Trace(lookup=lookup()))) == 1


def test_a_shipped_spec_comes_before_what_a_backend_says() -> None:
    target = {"kind": "llvm", "feature.compiler": "onnxruntime"}

    assert collage.gather(target, backends=[OnnxRuntime()]) == shipped("onnxruntime")["onnxruntime"]


def test_a_backend_whose_name_no_rule_can_say_is_refused() -> None:
    with pytest.raises(TargetError, match=r"cannot ask the backend `a\.b`"):
        collage.gather({"kind": "llvm", "feature.compiler": "a.b"}, backends=[Named("a.b")])


@pytest.mark.parametrize("target", ["llvm", {"kind": "llvm", "feature.compiler": "tvm"}])
def test_then_comes_the_native_spec(target: Any) -> None:
    assert collage.gather(target) == shipped("native")["tvm"]


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


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("nokind", 'kind "nokind" is not defined'),
        ("no/tag", 'kind "no/tag" is not defined'),
        ({"tag": "no/tag"}, "Unknown target tag: no/tag"),
        ('{"kind": ', "Failed to parse target JSON config"),
        ({"kind": "nokind"}, 'kind "nokind" is not defined'),
        ({"kind": "llvm", "no_option": 1}, "Unknown config option 'no-option'"),
        ({"kind": "llvm", "mcpu": 7}, "Option 'mcpu': expected type 'str'"),
    ],
)
def test_a_target_that_tvm_refuses_is_refused_with_its_reason(target: Any, reason: str) -> None:
    with pytest.raises(TargetError, match=f"^TVM refuses the target.*: .*{reason}"):
        collage.gather(target)


@pytest.mark.parametrize("tag", ["aws/cpu/c5.large", {"tag": "aws/cpu/c5.large"}])
def test_a_tag_of_tvm_stands_for_its_kind_and_options(tag: Any) -> None:
    found = collage.gather(tag)

    assert found.target.kind == "llvm"
    assert found.target.options["mcpu"] == "skylake-avx512"
    assert found == collage.gather(tvm.target.Target(tag))
    assert collage.extract(tag) is None
    assert collage.extract(collage.attach(tag, found)) == found


def test_a_target_may_be_the_text_of_its_json() -> None:
    assert collage.gather('{"kind": "llvm", "mcpu": "znver4"}').target.options == {"mcpu": "znver4"}


def test_options_that_a_spec_cannot_say_are_not_lost_in_silence() -> None:
    with pytest.raises(TargetError, match="cannot say the option `devices`"):
        collage.gather({"kind": "composite", "devices": [{"kind": "llvm"}]})


@pytest.mark.parametrize("given", [["onednn", "openblas"], ("onednn",), []])
def test_a_list_of_strings_is_an_option_of_the_spec(given: Any) -> None:
    target = {"kind": "llvm", "libs": given}

    assert collage.gather(target).target.options == {"libs": tuple(given)}
    assert collage.gather(tvm.target.Target(target)).target.options == {"libs": tuple(given)}


def test_keys_are_said_where_they_are_not_those_that_tvm_adds() -> None:
    arm = {"kind": "llvm", "device": "arm_cpu"}
    keyed = {"kind": "llvm", "keys": ["arm_cpu", "cpu"]}

    assert collage.gather(tvm.target.Target(arm)).target.options == {"device": "arm_cpu"}
    assert collage.gather(keyed).target.options == {"keys": ("arm_cpu", "cpu")}


# Names of compilers.


def test_every_compiler_that_is_listed_is_accepted_as_it_is_spelt() -> None:
    with pytest.raises(TargetError) as caught:
        collage.gather({"kind": "llvm", "feature.compiler": "no_such_library"})
    found = re.search(r"\(there are (.*)\)", str(caught.value))
    assert found
    listed = found[1].split(", ")

    for name in listed:
        spec = collage.gather({"kind": "llvm", "feature.compiler": name})
        assert spec.target.compiler == name
    assert "openclml" in listed
    assert len(listed) == len(shipped_specs()) - 1, "all but the native one, which has no compiler"


@pytest.mark.parametrize("name", shipped_specs())
def test_a_compiler_may_have_the_name_that_its_spec_ships_under(name: str) -> None:
    found = collage.gather({"kind": "llvm", "feature.compiler": name})

    (first, *_) = shipped(name).values()
    assert found == replace(first, target=replace(first.target, kind="llvm"))


def test_a_backend_comes_before_a_spec_that_only_ships_under_its_name() -> None:
    target = {"kind": "llvm", "feature.compiler": "clml"}

    found = collage.gather(target, backends=[Named("clml")])

    assert (found.name, found.target.compiler) == ("clml", "clml")


# Targets of older TVM.

OLD = [
    ("cuda -compiler=cutlass", {"kind": "cuda", "feature.compiler": "cutlass"}),
    ("cuda -libs=cudnn,cublas", {"kind": "cuda", "libs": ["cudnn", "cublas"]}),
    (
        "llvm -mcpu=znver4 -num-cores 4 --mattr=-avx,+fma -fast-math -fast-math-nnan=0",
        {
            "kind": "llvm",
            "mcpu": "znver4",
            "num-cores": 4,
            "mattr": ["-avx", "+fma"],
            "fast-math": True,
            "fast-math-nnan": False,
        },
    ),
]


@pytest.mark.parametrize(("old", "today"), OLD)
@pytest.mark.parametrize(
    "use",
    [
        collage.gather,
        collage.extract,
        lambda target: collage.attach(target, collage.load(text=OWN)["mine"]),
        lambda target: collage.gather({"kind": target}),
        lambda target: collage.CollagePartition([target]),
        lambda target: collage.compile("model.onnx", targets=[target]),
    ],
    ids=["gather", "extract", "attach", "kind", "partition", "compile"],
)
def test_a_target_of_older_tvm_is_refused_with_what_to_write(
    use: Callable[[Any], object], old: str, today: dict[str, Any]
) -> None:
    with pytest.raises(TargetError) as caught:
        use(old)

    said = str(caught.value)
    assert said.startswith(f'TVM no longer takes the target "{old}": write {{')
    assert json.loads(said[said.index("{") :]) == today
    options = {name: value for name, value in today.items() if name != "feature.compiler"}
    assert collage.gather(today).target.kind == today["kind"]
    assert tvm.target.Target(options).export().keys() >= options.keys()


@pytest.mark.parametrize("path", ["a - b.collage", "specs/llvm -x.collage", "llvm.collage", "-x"])
def test_the_path_of_a_file_is_no_target_of_older_tvm(path: str) -> None:
    with pytest.raises(UnknownTarget, match="there is no spec file"):
        collage.CollagePartition([path])
