"""A sample of ONNX's own tests: imported, planned, built, run and compared with their outputs."""

import re

import pytest
from tvm.relax.frontend.onnx import from_onnx as tvm_from_onnx

import collage_dsl as collage
from benchmarks.onnx_cases import (
    Case,
    WrongOutput,
    cases,
    is_run_by_onnxruntime,
    run,
    run_in_onnxruntime,
)
from tests.cases import slow
from tests.test_canonical import digests

WRONG_IN_ONNXRUNTIME = (
    *("attention_4d_diff_heads_mask4d_padded_kv", "attention_4d_causal_fp16", "dft", "stft"),
    *("attention_4d_with_past_and_present_qk_matmul_bias", "convinteger_with_padding"),
    *("training_dropout", "maxunpool_export_with_output_shape", "reduce_max_empty_set_bool"),
    *("resize_downsample_scales_linear_align", "resize_downsample_scales_cubic_align"),
)
"""Beginnings of names of cases that onnxruntime does not give the outputs of."""

UNDEFINED = re.compile(r"FLOAT(16)?_to_U?INT[24]")
"""
Part of the names of cases in which floats are cast to integers that cannot hold them: the right
outputs are made as the cases are loaded, and each processor makes others.
"""


def is_wrong_in_onnxruntime(case: Case) -> bool:
    """Also attention of bfloat16, for which the scores are rounded at other places."""
    name = case.name.removeprefix("test_")
    is_rounded = name.startswith("attention") and "bf16" in name
    return is_rounded or bool(UNDEFINED.search(name)) or name.startswith(WRONG_IN_ONNXRUNTIME)


def sample(size: int) -> list[Case]:
    """So many cases of each kind that onnxruntime runs, at equal distances."""
    known = [case for case in cases() if not is_wrong_in_onnxruntime(case)]
    distance = len(known) // (size + size // 3)
    return [case for case in known[::distance] if is_run_by_onnxruntime(case)][:size]


@pytest.mark.parametrize(("size", "every"), [(50, 2), slow(50, 1), slow(150, 1)])
def test_a_sample_of_the_tests_of_onnx_is_right(size: int, every: int) -> None:
    """Of a sample of so many cases, one in `every`."""
    wrong = {}
    chosen = sample(size)[::every]
    for case in chosen:
        try:
            run(case)
        except Exception as error:
            wrong[case.name] = f"{type(error).__name__}: {error}"

    assert len(chosen) == size // every
    assert not wrong


def test_remainders_of_floats_have_the_sign_of_the_divisor() -> None:
    """Which onnxruntime does not compute."""
    found = [case for case in cases(["node"]) if "mod_float_edge_cases_fmod_0" in case.name]

    assert len(found) == 3
    for case in found:
        run(case)


def test_a_wrong_output_is_seen() -> None:
    case = next(case for case in cases(["simple"]) if case.name == "test_single_relu_model")
    inputs, outputs = case.runs[0]
    wrong = Case(case.kind, case.name, case.model, [(inputs, [outputs[0] + 1])], 1e-3, 1e-7)

    run(case)
    for function in (run, run_in_onnxruntime):
        with pytest.raises(WrongOutput, match="is wrong"):
            function(wrong)


ALIKE = """
    add_bcast and4d argmax_keepdims_example averagepool_2d_pads averagepool_2d_same_upper
    basic_conv_with_padding batchnorm_example batchnorm_epsilon cast_FLOAT_to_FLOAT16 ceil
    concat_2d_axis_1 conv_with_strides_padding
    constant_pad cumsum_1d div_bcast edge_pad elu flatten_axis1 gather_0 gather_1
    gather_elements_0 gather_elements_1 gather_negative_indices gathernd_example_float32
    gemm_all_attributes gemm_alpha gemm_default_vector_bias gemm_transposeB globalaveragepool
    hardsigmoid hardswish leakyrelu
    logsoftmax_axis_1 lrn lrn_default matmul_3d max_example max_two_inputs maxpool_2d_pads
    mean_example min_example mul_bcast prelu_broadcast reduce_mean_keepdims_example relu
    scatter_elements_with_axis scatternd shrink_hard sigmoid
    softmax_axis_0 softmax_axis_2 softmax_large_number split_equal_parts_1d_opset13 sub_bcast
    sum_example sum_one_input sum_two_inputs transpose_all_permutations_1 where_example
"""


def test_a_case_of_onnx_is_the_same_graph_from_either_importer() -> None:
    wanted = {f"test_{name}" for name in ALIKE.split()}
    known = [case for case in cases(["node"]) if case.name in wanted]
    compared, different = 0, []
    for case in known:
        model = case.model
        try:
            theirs = tvm_from_onnx(model, keep_params_in_input=False)
        except Exception:  # TVM lacks the operator, or wants its shapes to be constant.
            continue
        compared += 1
        if digests(collage.from_onnx(model)) != digests(collage.from_relax(theirs)):
            different.append(case.name)
    assert different == []
    assert compared > 40
