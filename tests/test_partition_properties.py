"""The pass on random modules: in order, the same again, and computing what they did."""

import random
from dataclasses import replace

import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import relax

from collage_dsl.cost import Cost, Infeasible
from collage_dsl.frontend.to_relax import to_relax
from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.rules import FusionSpec
from tests.cases import cases
from tests.partitioned import FUSE, assert_same_results
from tests.random_relax import relax_graph
from tests.test_partition_pass import DECLARED, RULES, array, partitioned, price, spec
from tests.tvm_oracle import with_values


def random_module(generator: random.Random) -> tvm.IRModule:
    """
    Random calls in one to three dataflow blocks; some of them are compiled, with their kinds noted
    or not, and some are calls of functions.
    """
    graph = with_values(relax_graph(generator, generator.randint(3, 14)))
    blocks = generator.randint(1, 3)
    nodes = [
        replace(node, block=blocks * place // len(graph)) for place, node in enumerate(graph.nodes)
    ]
    module = to_relax(Graph(nodes, graph.outputs, returns_tuple=graph.returns_tuple))
    names = sorted({f"relax.{node.op}" for node in nodes if node.op})
    if generator.random() < 0.5:
        skipped = [name for name in names if generator.random() < 0.6]
        module = relax.transform.LegalizeOps(skip_ops=skipped)(module)
        if generator.random() < 0.7:
            module = relax.transform.AnnotateTIROpPattern()(module)
    if generator.random() < 0.5:
        called = {name.removeprefix("relax.") for name in names if generator.random() < 0.3}

        def cost(candidate: CandidateKernel) -> Cost:
            return price(candidate) if candidate.label in called else Infeasible("not called")

        module = partitioned(module, spec("op_call_by_kind()", name="function"), cost=cost)
    return module


def random_spec(generator: random.Random) -> FusionSpec:
    rules, more = RULES[generator.choice(sorted(RULES))]
    if "limits" not in more and generator.random() < 0.5:
        more = "limits { max_exits 3; taps true; }"
    library = 'compiler "onnxruntime";' if generator.random() < 0.3 else ""
    return spec(rules, more + library, before=DECLARED)


@cases(25)
@given(st.integers(0, 10**9))
def test_a_partitioned_module_is_in_order_and_stays(seed: int) -> None:
    generator = random.Random(seed)
    module, native = random_module(generator), random_spec(generator)

    result = partitioned(module, native)

    FUSE(relax.transform.RunCodegen()(result))


@pytest.mark.parametrize("seed", range(6))
def test_a_partitioned_module_computes_what_it_did(seed: int) -> None:
    generator = random.Random(seed)
    module, native = random_module(generator), random_spec(generator)
    params = module["main"].params
    shapes = [[int(dim) for dim in param.ty.shape.values] for param in params]
    arguments = [array(*shape, seed=place) for place, shape in enumerate(shapes)]

    assert_same_results(partitioned(module, native), module, *arguments)
