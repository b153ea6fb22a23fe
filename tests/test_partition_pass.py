"""`CollagePartition`: kernels in modules of any shape."""
# TVMScript has the syntax of Python, and other habits.
# ruff: noqa: N805, N812

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import collage_dsl as collage
from collage_dsl.cost import Cost, CostError, CostStore, Infeasible
from collage_dsl.diagnostics import RuleError
from collage_dsl.frontend.to_relax import to_relax
from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.rules import FusionSpec
from collage_dsl.targets.attach import TargetError
from tests.cases import slow
from tests.partitioned import FUSE, LEGALIZE, assert_same_results
from tests.random_relax import relax_graph
from tests.tvm_oracle import with_values

WHOLE = "max_coalesce(op_call_by_kind())"
"""Proposes one kernel only, which is chosen where it can be measured, whatever it takes."""

FUSED = "combine_by_primitives(op_call_by_kind(), using: tvm_default, max_depth: 8)"


def spec(
    rules: str, more: str = "", name: str = "tvm", before: str = "", on: str = "llvm"
) -> FusionSpec:
    text = f"collage 1;\n{before}\ntarget {name} on {on} {{ rules {rules}; {more} }}\n"
    return collage.load(text=text)[name]


def price(candidate: CandidateKernel) -> Cost:
    """A launch, and a little for each operator."""
    return 1e-5 + 1e-6 * (candidate.sub_graph.inside & candidate.graph.calls).bit_count()


def partitioned(module: tvm.IRModule, *specs: FusionSpec, **options: Any) -> tvm.IRModule:
    """
    The module after the pass, which is in order, is the same whenever it is made, and has
    nothing more to be found in it.
    """
    given = {"cost": price, **options}
    result = collage.CollagePartition(specs, **given)(module)
    relax.analysis.well_formed(result)
    for again in (collage.CollagePartition(specs, **given)(m) for m in (module, result)):
        tvm.ir.assert_structural_equal(again, result)
        assert names(again) == names(result)
    return result


def names(module: tvm.IRModule) -> set[str]:
    return {str(var.name_hint) for var in module.get_global_vars()}


def callees(block: Any) -> list[str]:
    """What the bindings of a block call, by name."""
    return [
        str(call.op.name_hint if isinstance(call.op, tvm.ir.GlobalVar) else call.op.name)
        for call in (binding.value for binding in block.bindings)
        if isinstance(call, tvm.ir.Call)
    ]


def array(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


# Functions, blocks, branches.


@I.ir_module
class Branches:
    @R.function
    def helper(x: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.nn.relu(a)
            R.output(b)
        return b

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((4, 6), "float32")) -> R.Tuple(
        R.Tensor((4, 6), "float32"), R.Tensor((24,), "float32")
    ):
        cls = Branches
        if c:
            with R.dataflow():
                a = R.exp(x)
                b = R.nn.relu(a)
                R.output(b)
            r = R.negative(b)
        else:
            with R.dataflow():
                d = R.sigmoid(x)
                e = R.tanh(d)
                R.output(e)
            r = R.abs(e)
        with R.dataflow():
            h = cls.helper(r)
            s = R.sigmoid(h)
            R.output(h, s)
        k = R.exp(s)
        with R.dataflow():
            t = R.tanh(k)
            u = R.reshape(t, (24,))
            R.output(u)
        return (h, u)


def test_every_dataflow_block_of_every_function_is_partitioned() -> None:
    result = partitioned(Branches, spec(FUSED))
    kernels = {"tvm_exp_relu", "tvm_sigmoid", "tvm_sigmoid_tanh", "tvm_tanh_reshape"}
    main = result["main"]
    branch = main.body.blocks[0].bindings[0].value

    assert names(result) == {"main", "helper", *kernels}
    assert callees(result["helper"].body.blocks[0]) == ["tvm_exp_relu"]
    assert callees(branch.true_branch.blocks[0]) == ["tvm_exp_relu"]
    assert callees(branch.true_branch.blocks[1]) == ["relax.negative"]
    assert callees(branch.false_branch.blocks[0]) == ["tvm_sigmoid_tanh"]
    assert callees(main.body.blocks[1]) == ["helper", "tvm_sigmoid"]
    assert callees(main.body.blocks[2]) == ["relax.exp"]
    assert callees(main.body.blocks[3]) == ["tvm_tanh_reshape"]
    for name in kernels:
        assert result[name].attrs["Primitive"]
        assert "global_symbol" not in result[name].attrs
    for name in ("main", "helper"):
        tvm.ir.assert_structural_equal(result[name].ty, Branches[name].ty)


@pytest.mark.parametrize("condition", [True, False])
def test_both_branches_compute_what_they_did(condition: bool) -> None:
    result = partitioned(Branches, spec(FUSED))

    assert_same_results(result, Branches, np.array(condition), array(4, 6))


def test_fuse_ops_leaves_the_kernels_alone() -> None:
    result = partitioned(Branches, spec("op_call_by_kind()"))
    kernels = {name for name in names(result) if name.startswith("tvm_")}
    fused = FUSE(result)

    assert len(kernels) == 5
    assert {name for name in names(fused) if name.startswith("tvm_")} == kernels
    for name in kernels:
        assert isinstance(fused[name], tvm.tirx.PrimFunc)


def test_it_is_a_pass_among_others() -> None:
    pipeline = tvm.transform.Sequential([collage.CollagePartition([spec(FUSED)], price), FUSE])

    assert "tvm_exp_relu" in names(pipeline(Branches))


def test_larger_dataflow_blocks_have_larger_kernels() -> None:
    passes = [relax.transform.ConvertToDataflow(), collage.CollagePartition([spec(FUSED)], price)]
    result = tvm.transform.Sequential(passes)(Branches)

    assert {"tvm_exp_relu_negative", "tvm_sigmoid_exp_tanh_reshape"} <= names(result)


def test_a_module_in_which_nothing_is_found_is_the_same_module() -> None:
    result = collage.CollagePartition([spec("op_call_by_kind(anchor)")], price)(Branches)

    assert result.same_as(Branches)


def test_functions_that_are_somebodys_kernel_or_to_be_skipped_stay() -> None:
    for attribute in ("Codegen", "Composite", "Primitive", "SkipOptimization"):
        module = tvm.IRModule(dict(Branches.functions_items()))
        marked = Branches["helper"].with_attr(attribute, "yes")
        module["helper"] = marked

        result = collage.CollagePartition([spec(FUSED)], price)(module)

        assert callees(result["helper"].body.blocks[0]) == ["relax.exp", "relax.nn.relu"]
        assert callees(result["main"].body.blocks[3]) == ["tvm_tanh_reshape"]


@I.ir_module
class Products:
    @R.function
    def main(x: R.Tensor((3, 4), "float32")) -> R.Tensor((3, 4), "float32"):
        with R.dataflow():
            a = R.matmul(x, R.const(np.full((4, 4), 2, np.float32)))
            b = R.matmul(a, R.const(np.full((4, 4), 3, np.float32)))
            R.output(b)
        return b


def test_a_kernel_has_another_name_than_one_that_has_been_compiled() -> None:
    def only(name: str, module: tvm.IRModule) -> tvm.IRModule:
        def cost(candidate: CandidateKernel) -> Cost:
            return 1e-6 if candidate.nodes == {name} else Infeasible("not now")

        return collage.CollagePartition(["onnxruntime"], cost=cost)(module)

    compiled = relax.transform.RunCodegen()(only("a", Products))

    assert_same_results(only("b", compiled), Products, array(3, 4))


def test_kernels_have_names_that_nothing_else_has() -> None:
    module = tvm.IRModule(dict(Branches.functions_items()))
    helper = relax.utils.copy_with_new_vars(Branches["helper"])
    module["tvm_exp_relu"] = helper.with_attr("global_symbol", "tvm_exp_relu")

    result = partitioned(module, spec(FUSED))

    assert {"tvm_exp_relu", "tvm_exp_relu_2", "tvm_tanh_reshape"} <= names(result)
    assert callees(result["tvm_exp_relu"].body.blocks[0]) == ["tvm_exp_relu_2"]


# Calls that TVM has compiled already.


def compiled(pattern: int | None) -> tvm.IRModule:
    """`exp`, and then a compiled function of this kind, and then `relu`."""

    @I.ir_module
    class Module:
        @T.prim_func(private=True, s_tir=True)
        def twice(
            x: T.Buffer((T.int64(4), T.int64(6)), "float32"),
            y: T.Buffer((T.int64(4), T.int64(6)), "float32"),
        ):
            for i, j in T.grid(T.int64(4), T.int64(6)):
                with T.sblock("double"):
                    v_i, v_j = T.axis.remap("SS", [i, j])
                    y[v_i, v_j] = x[v_i, v_j] * T.float32(2)

        @R.function
        def main(x: R.Tensor((4, 6), "float32")) -> R.Tensor((4, 6), "float32"):
            cls = Module
            with R.dataflow():
                a = R.exp(x)
                b = R.call_tir(cls.twice, (a,), out_ty=R.Tensor((4, 6), "float32"))
                c = R.nn.relu(b)
                R.output(c)
            return c

    if pattern is not None:
        Module["twice"] = Module["twice"].with_attr("op_pattern", pattern)
    return Module


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (0, ["tvm_exp_call_tir_relu"]),
        slow(1, ["tvm_exp_call_tir_relu"]),
        slow(2, ["tvm_exp_call_tir_relu"]),
        (3, ["tvm_exp_call_tir_relu"]),
        (4, ["tvm_exp", "tvm_call_tir_relu"]),
        (8, ["tvm_exp", "relax.call_tir", "tvm_relu"]),
        (7, ["tvm_exp", "relax.call_tir", "tvm_relu"]),  # that of tuples
        (None, ["tvm_exp", "relax.call_tir", "tvm_relu"]),
    ],
)
def test_a_compiled_function_is_of_the_kind_that_tvm_has_noted(
    pattern: int | None, expected: list[str]
) -> None:
    module = compiled(pattern)
    result = partitioned(module, spec(FUSED))

    assert callees(result["main"].body.blocks[0]) == expected
    assert_same_results(result, module, array(4, 6))


def test_no_library_is_given_a_compiled_function() -> None:
    library = spec(FUSED, 'compiler "onnxruntime";', name="ort")

    result = partitioned(compiled(0), library)

    assert callees(result["main"].body.blocks[0]) == ["ort_exp", "relax.call_tir", "ort_relu"]


# Dimensions that have names.


@I.ir_module
class Batch:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), m: R.Tensor(("k",), "float32")) -> R.Tuple(
        R.Tensor(("n", 4), "float32"), R.Tensor("float32", ndim=1)
    ):
        n = T.int64()
        q = T.int64()
        with R.dataflow():
            a = R.nn.relu(x)
            b = R.reshape(a, (n * 2, 2))
            c = R.exp(b)
            d = R.reshape(c, (n, 4))
            u = R.unique(m)
            v = R.match_cast(u, R.Tensor((q,), "float32"))
            w = R.exp(v)
            y = R.negative(w)
            R.output(d, y)
        return (d, y)


@pytest.mark.parametrize("rules", [FUSED, "op_call_by_kind()"])
def test_dimensions_may_have_names_and_be_found_as_it_runs(rules: str) -> None:
    result = partitioned(Batch, spec(rules))
    called = callees(result["main"].body.blocks[0])

    assert [name for name in called if not name.startswith("tvm_")] == ["relax.unique"]
    values = np.array([1, 2, 2, 3, 1], np.float32)
    assert_same_results(result, Batch, array(3, 4), values)


def test_a_kernel_takes_the_input_that_its_dimensions_are_of() -> None:
    result = partitioned(Batch, spec("op_call_by_kind()"))

    # `n` can be told from a tensor of (n, 4), and not from one of (n * 2, 2).
    assert [str(param.ty.shape) for param in result["tvm_exp"].params] == [
        "R.shape([n, 4])",
        "R.shape([n * 2, 2])",
    ]


# Tuples, and what has no kind.


@I.ir_module
class Tuples:
    @R.function
    def main(
        p: R.Tuple(R.Tensor((4, 6), "float32"), R.Tensor((4, 6), "float32")),
    ) -> R.Tuple(
        R.Tensor((8, 6), "float32"),
        R.Tuple(R.Tensor((2, 6), "float32"), R.Tensor((2, 6), "float32")),
        R.Tensor((4, 6), "int32"),
    ):
        with R.dataflow():
            a = R.concat(p, axis=0)
            b = p[0]
            s = R.split(b, 2, axis=0)
            t = s
            h = s[0]
            e = R.exp(h)
            z = R.concat((e, h), axis=0)
            o = R.argsort(z, axis=1, dtype="int32")
            f = R.nn.relu(a)
            R.output(t, o, f)
        return (f, t, o)


@pytest.mark.parametrize("rules", [FUSED, "op_call_by_kind()"])
def test_tuples_go_in_and_come_out(rules: str) -> None:
    result = partitioned(Tuples, spec(rules, "limits { max_exits 3; taps true; }"))

    assert "relax.argsort" in callees(result["main"].body.blocks[0])
    assert_same_results(result, Tuples, (array(4, 6), array(4, 6, seed=1)))


def test_an_operator_that_the_table_does_not_know_is_opaque() -> None:
    module = chain(relax.op.exp, relax.op.builtin.stop_lift_params, relax.op.nn.relu)
    graph = collage.from_relax(module, is_canonical=True)
    left = partitioned(module, spec("op_call_by_kind()"))

    kinds = {node.op: str(node.kind) for node in graph.nodes if node.is_call}
    assert kinds["builtin.stop_lift_params"] == "opaque"
    blocks = left["main"].body.blocks
    assert callees(blocks[0]) == ["tvm_exp", "relax.builtin.stop_lift_params", "tvm_relu"]


def test_memory_that_a_lowered_module_allocates_is_in_no_kernel() -> None:
    lowering = [LEGALIZE, relax.transform.ToNonDataflow(), relax.transform.RemovePurityChecking()]
    lowered = tvm.transform.Sequential([*lowering, relax.transform.CallTIRRewrite()])(
        chain(relax.op.exp, relax.op.nn.relu)
    )
    module = relax.transform.ConvertToDataflow(min_size=1)(lowered)

    assert partitioned(module, spec("op_call_by_kind(opaque)", "fallback;")).same_as(module)


def test_a_kernel_of_an_opaque_operator_is_one_where_a_rule_says_so() -> None:
    result = partitioned(Tuples, spec(f"union({FUSED}, op_call_by_kind(opaque))"))

    assert "tvm_argsort" in callees(result["main"].body.blocks[0])
    assert_same_results(result, Tuples, (array(4, 6), array(4, 6, seed=1)))


# Libraries.


def chain(*operators: Any, shape: tuple[int, ...] = (4, 6)) -> tvm.IRModule:
    """A module that applies operators one after the other."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    with builder.function("main", [x]):
        with builder.dataflow():
            value: Any = x
            for operator in operators:
                value = builder.emit(operator(value))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()


def weighted(x: Any) -> Any:
    return relax.op.matmul(x, relax.const(array(6, 6)))


LIBRARY = """
pattern dense(x, w: const) { k = matmul(x, w); y = nn.relu(k); yield y; }
rule tagged = composite("ort.dense", dfpattern(dense));
rule library = union(tagged, op_call_by_kind(elementwise));
"""


def test_a_kernel_of_a_library_has_codegen_and_composites_inside() -> None:
    library = spec(
        "combine_by_primitives(library, using: [join_anything])",
        'compiler "onnxruntime";',
        name="ort",
        before=LIBRARY,
        on="llvm(num_cores: 1)",
    )
    module = chain(weighted, relax.op.nn.relu, relax.op.exp, weighted, relax.op.nn.relu)
    result = partitioned(module, library)
    kernel = result["ort_matmul_relu_5_operators"]
    inner = [
        binding.value.attrs["Composite"]
        for block in kernel.body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Function)
    ]

    assert names(result) == {"main", "ort_matmul_relu_5_operators"}
    assert kernel.attrs["Codegen"] == "onnxruntime"
    assert kernel.attrs["global_symbol"] == "ort_matmul_relu_5_operators"
    assert kernel.attrs["collage.num_cores"] == 1
    assert len(kernel.params) == 1, "weights are bound inside"
    assert inner == ["ort.dense", "ort.dense"]
    assert_same_results(result, module, array(4, 6))


def test_fuse_ops_finds_nothing_to_fuse_in_the_kernel_of_a_library() -> None:
    library = spec(FUSED, 'compiler "onnxruntime";', name="ort")
    result = partitioned(chain(relax.op.exp, relax.op.nn.relu), library)
    fused = relax.transform.FuseOps()(result)

    tvm.ir.assert_structural_equal(fused["ort_exp_relu"], result["ort_exp_relu"])
    assert names(fused) == names(result)


def test_a_library_that_is_not_installed_can_be_partitioned_for() -> None:
    library = spec(FUSED, 'compiler "elsewhere";', name="lib")

    result = partitioned(chain(weighted, relax.op.nn.relu), library)

    assert result["lib_matmul_relu"].attrs["Codegen"] == "elsewhere"
    assert len(result["lib_matmul_relu"].params) == 1, "weights are bound inside"


def test_kernels_of_one_kind_but_other_weights_are_not_shared() -> None:
    def other(x: Any) -> Any:
        return relax.op.matmul(x, relax.const(array(6, 6, seed=1)))

    library = spec("op_call_by_kind()", 'compiler "onnxruntime";', name="ort")
    module = chain(weighted, other, weighted)

    assert names(partitioned(module, library)) == {"main", "ort_matmul", "ort_matmul_2"}
    assert names(partitioned(module, spec("op_call_by_kind()"))) == {"main", "tvm_matmul"}


# What is chosen.


def test_a_call_that_no_candidate_covers_is_left_alone() -> None:
    module = chain(relax.op.exp, relax.op.nn.softmax, relax.op.nn.relu)

    result = partitioned(module, spec("op_call_by_kind(elementwise)"))

    assert callees(result["main"].body.blocks[0])[:3] == [
        "tvm_exp",
        "relax.nn.softmax",
        "tvm_relu",
    ]


@pytest.mark.parametrize("size", [-1, "8", (1, 4), 2.5, True])
def test_a_size_to_measure_at_is_a_number(size: Any) -> None:
    with pytest.raises(ValueError, match="`n` is measured at one size"):
        collage.CollagePartition([spec(FUSED)], sizes={"n": size})


def test_what_the_pass_raises_keeps_its_class() -> None:
    module = chain(relax.op.exp)
    native = spec(FUSED)

    with pytest.raises(CostError, match="is -1"):
        collage.CollagePartition([native], cost=lambda _: -1)(module)
    with pytest.raises(TargetError, match="no target"):
        collage.CollagePartition(cost=lambda _: 1)(module)
    broken = tvm.target.Target({"kind": "llvm", "feature.fusion_spec": "target t on llvm {}"})
    with pytest.raises(RuleError, match=r"1:1: error\[E"), broken:
        collage.CollagePartition(cost=lambda _: 1)(module)


def test_a_call_whose_kernels_are_infeasible_is_left_alone() -> None:
    def cost(candidate: CandidateKernel) -> Cost:
        slow = "nn.relu" in candidate.label
        return Infeasible("not today") if slow else price(candidate)

    module = chain(relax.op.exp, relax.op.nn.relu, relax.op.sigmoid)
    result = partitioned(module, spec(FUSED), cost=cost)

    assert names(result) == {"main", "tvm_exp", "tvm_sigmoid"}


def test_as_few_calls_as_possible_are_left_alone_whatever_they_cost() -> None:
    costs = {"exp+nn.relu": 1e-6, "nn.relu+sigmoid": 1e-6, "exp+nn.relu+sigmoid": 5.0}

    def cost(candidate: CandidateKernel) -> Cost:
        return costs.get(candidate.label, Infeasible("too small"))

    module = chain(relax.op.exp, relax.op.nn.relu, relax.op.sigmoid)
    assert names(partitioned(module, spec(FUSED), cost=cost)) == {"main", "tvm_exp_relu_sigmoid"}

    del costs["exp+nn.relu+sigmoid"]
    assert names(partitioned(module, spec(FUSED), cost=cost)) == {"main", "tvm_exp_relu"}


def test_a_pass_for_one_target_takes_what_that_for_another_has_left() -> None:
    module = chain(relax.op.exp, relax.op.nn.softmax, relax.op.nn.relu)
    first = partitioned(module, spec("op_call_by_kind(anchor)", name="one"))

    both = partitioned(first, spec("op_call_by_kind()", name="two"))

    assert names(both) == {"main", "one_softmax", "two_exp", "two_relu"}


def test_a_rule_finds_more_where_something_has_been_taken_out() -> None:
    """Until nothing is found: so the pass finds nothing when it is run again."""
    greedy = spec("max_coalesce(op_call_by_kind(elementwise))", name="all")
    single = spec("op_call_by_kind()", name="one")
    module = chain(relax.op.exp, relax.op.nn.relu, relax.op.sigmoid)

    def cost(candidate: CandidateKernel) -> Cost:
        if candidate.label == "exp+nn.relu+sigmoid":
            return Infeasible("too large")
        if candidate.target == "one" and candidate.label != "nn.relu":
            return Infeasible("only relu")
        return price(candidate)

    assert names(partitioned(module, greedy, single, cost=cost)) == {
        *("main", "all_exp", "all_sigmoid", "one_relu")
    }


def test_targets_may_be_files_and_costs_a_table(tmp_path: Path) -> None:
    text = "collage 1; target tvm on llvm { rules op_call_by_kind(); }"
    (tmp_path / "tvm.collage").write_text(text, "utf-8")
    (tmp_path / "costs.yaml").write_text('tvm: {ops: {"*": 1.0e-6}}', "utf-8")
    module = chain(relax.op.exp, relax.op.nn.relu)

    files = [tmp_path / "tvm.collage"], tmp_path / "costs.yaml"
    result = collage.CollagePartition(*files)(module)

    assert names(result) == {"main", "tvm_exp", "tvm_relu"}


def test_targets_may_be_those_of_tvm_that_carry_a_spec() -> None:
    target = collage.attach({"kind": "llvm"}, spec(FUSED))

    result = collage.CollagePartition([target], price)(chain(relax.op.exp, relax.op.nn.relu))

    assert names(result) == {"main", "tvm_exp_relu"}


def test_kernels_are_measured_where_no_cost_is_given(tmp_path: Path) -> None:
    store = tmp_path / "costs.sqlite"
    once = collage.CollagePartition([spec("op_call_by_kind()")], store=store)
    module = compiled(0)

    result = once(module)

    assert callees(result["main"].body.blocks[0]) == ["tvm_exp", "tvm_call_tir", "tvm_relu"]
    assert store.exists()
    assert once(Batch).same_as(Batch), "nothing can be measured of symbolic dimensions"


def test_a_kernel_that_no_source_knows_the_cost_of_is_measured(tmp_path: Path) -> None:
    native = spec("op_call_by_kind()")
    table = tmp_path / "costs.yaml"
    table.write_text("tvm: {ops: {exp: 1.0e-6}}", "utf-8")
    module = chain(relax.op.exp, relax.op.nn.relu)
    store = tmp_path / "costs.sqlite"

    alone = collage.CollagePartition([native], table, store=store)(module)
    assert names(alone) == {"main", "tvm_exp"}
    assert not store.exists(), "a table by itself says that other kernels are infeasible"

    first = collage.CollagePartition([native], [table], store=store)(module)
    assert names(first) == {"main", "tvm_exp", "tvm_relu"}
    with CostStore(store) as costs:
        assert len(costs) == 4, "the kernel, two overheads, and the speed of the machine"


def test_a_pass_measures_for_one_module_after_another(tmp_path: Path) -> None:
    store = tmp_path / "costs.sqlite"
    merging = spec("op_call_by_kind()", "after max_coalesce();")
    once = collage.CollagePartition([merging], [lambda _: float("nan")], store=store)

    known = []
    for op in (relax.op.nn.relu, relax.op.sigmoid):
        once(chain(relax.op.exp, op))
        with CostStore(store) as costs:
            known.append(len(costs))

    assert known[0] < known[1], "what the first module needed is still there"
    assert [path.name for path in tmp_path.iterdir()] == ["costs.sqlite"]


def test_kernels_with_symbolic_dimensions_are_measured_at_a_size(tmp_path: Path) -> None:
    native = spec("op_call_by_kind()")
    store = tmp_path / "costs.sqlite"

    result = collage.CollagePartition([native], store=store, sizes={"n": np.int64(3)})(Batch)

    # The other dimension, found as it runs, has no size.
    assert {"tvm_relu", "tvm_reshape", "tvm_exp", "tvm_reshape_2", "main"} == names(result)
    with CostStore(store) as costs:
        assert len(costs) == 11, "four kernels, two overheads, the speed, and four for lower bounds"


@pytest.mark.parametrize("is_measured", [False, True])
def test_a_library_gets_kernels_with_dimensions_of_an_input(
    is_measured: bool, tmp_path: Path
) -> None:
    library = spec("op_call_by_kind()", 'compiler "onnxruntime";', name="ort")
    given: dict[str, Any] = {"store": tmp_path / "costs.sqlite", "sizes": {"n": 3, "k": 3}}

    result = collage.CollagePartition([library], None if is_measured else price, **given)(Batch)

    assert callees(result["main"].body.blocks[0])[:4] == [
        "ort_relu",
        "ort_reshape",
        "ort_exp",
        "ort_reshape_2",
    ]
    assert_same_results(result, Batch, array(5, 4), np.array([1, 2, 2, 3, 1], np.float32))


@I.ir_module
class Lowered:
    """What becomes compiled functions, on a batch of any size."""

    @R.function
    def main(x: R.Tensor(("n", 4), "float32")) -> R.Tensor(("n", 4), "float32"):
        n = T.int64()
        with R.dataflow():
            a = R.exp(x)
            b = R.zeros((n, 4), "float32")
            c = R.add(a, b)
            d = R.negative(c)
            R.output(d)
        return d


@pytest.mark.parametrize(
    ("operators", "kernel"),
    [
        ([], "tvm_call_tir_call_tir_call_tir_call_tir"),
        slow(["relax.exp"], "tvm_exp_call_tir_call_tir_call_tir"),
        slow(["relax.negative"], "tvm_call_tir_call_tir_call_tir_negative"),
    ],
)
def test_kernels_that_call_compiled_functions_are_measured(
    operators: list[str], kernel: str, tmp_path: Path
) -> None:
    legalized = relax.transform.LegalizeOps(skip_ops=operators)(Lowered)
    lowered = relax.transform.AnnotateTIROpPattern()(legalized)
    store = tmp_path / "costs.sqlite"
    fused = collage.CollagePartition([spec(WHOLE)], store=store, sizes={"n": 5})

    result = fused(lowered)

    assert callees(result["main"].body.blocks[0]) == [kernel]
    assert_same_results(result, lowered, array(3, 4))


@I.ir_module
class Times:
    @T.prim_func(private=True, s_tir=True)
    def times(
        x: T.Buffer((T.int64(4),), "float32"),
        times: T.int64,
        y: T.Buffer((T.int64(4),), "float32"),
    ):
        T.func_attr({"op_pattern": 0})
        for i in T.serial(T.int64(4)):
            with T.sblock("times"):
                v_i = T.axis.remap("S", [i])
                y[v_i] = x[v_i] * T.Cast("float32", times)

    @R.function
    def main(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Times
        with R.dataflow():
            a = R.exp(x)
            b = R.call_tir(cls.times, (a, T.int64(3)), out_ty=R.Tensor((4,), "float32"))
            R.output(b)
        return b


def test_a_compiled_function_that_is_given_a_number_is_measured(tmp_path: Path) -> None:
    fused = collage.CollagePartition([spec(WHOLE)], store=tmp_path / "costs.sqlite")

    result = fused(Times)

    assert callees(result["main"].body.blocks[0]) == ["tvm_exp_call_tir"]
    assert_same_results(result, Times, array(4))


# What is not used.


@I.ir_module
class Unused:
    @R.function
    def main(x: R.Tensor((4, 6), "float32")) -> R.Tuple(
        R.Tensor((4, 6), "float32"), R.Tensor((4, 6), "float32")
    ):
        with R.dataflow():
            a = R.exp(x)
            t = (a, a)
            b = R.concat(t, axis=0)
            c = R.split(b, 2, axis=0)  # noqa: F841 (nothing uses it)
            R.output(t)
        return t


@pytest.mark.parametrize("rules", [FUSED, "op_call_by_kind()"])
def test_no_kernel_is_made_of_what_computes_nothing_that_is_used(rules: str) -> None:
    result = partitioned(Unused, spec(rules, "limits { max_exits 3; taps true; }"))

    assert_same_results(result, Unused, array(4, 6))


# Every rule.

RULES = {
    "op_call_by_kind": ("op_call_by_kind(elementwise, broadcast, anchor)", ""),
    "dfpattern": ("dfpattern(chain)", ""),
    "op_predicate": ('op_predicate("tvm.supports", ops: [matmul, add])', ""),
    "composite": ('composite("L", dfpattern(chain))', ""),
    "union": ("union(dfpattern(chain), op_call_by_kind(anchor), host())", ""),
    "combine_by_primitives": (FUSED, ""),
    "max_splits": (
        "combine_by_primitives(op_call_by_kind(), using: [join_anything], max_splits: 1)",
        "limits { max_exits 4; taps true; }",
    ),
    "max_coalesce": ("max_coalesce(op_call_by_kind())", "limits { max_exits 9; taps true; }"),
    "after": ("op_call_by_kind()", "limits { max_exits 9; taps true; } after max_coalesce();"),
    "only_valid": (f"only_valid({FUSED}, max_depth: 2)", ""),
    "horizontal": ("horizontal(op_call_by_kind(), max: 3)", "limits { max_exits 3; }"),
    "vertical": ("vertical(op_call_by_kind(anchor), prologue: broadcast)", ""),
}

DECLARED = """
pattern chain(x, z?) { a = (exp(x) | nn.relu(x)); y = add?(a, z); yield y; }
"""


@pytest.mark.parametrize("rule", RULES)
def test_what_is_computed_stays_the_same_for_every_rule(rule: str) -> None:
    found = with_values(relax_graph(random.Random(7), 12))
    module = to_relax(Graph(found.nodes, found.outputs, returns_tuple=found.returns_tuple))
    rules, more = RULES[rule]

    result = partitioned(module, spec(rules, more, before=DECLARED))

    assert len(names(result)) > 1
    assert_same_results(result, module, array(4, 4), array(4, 1, seed=1))


def test_composites_may_have_symbolic_dimensions_too() -> None:
    tagged = 'composite("lib.any", op_call_by_kind())'
    rules = f"combine_by_primitives({tagged}, using: [join_anything], max_depth: 2)"
    library = spec(rules, 'compiler "elsewhere";', name="lib")

    result = partitioned(Batch, library)
    kernel = result["lib_exp_reshape"]

    assert [type(param.ty) for param in kernel.params] == [relax.TensorType, relax.TensorType]
    assert kernel.attrs["Codegen"] == "elsewhere"
