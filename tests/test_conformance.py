"""A sample of ONNX's own tests: imported, planned, built, run and compared with their outputs."""

import pytest

from benchmarks.onnx_cases import (
    Case,
    WrongOutput,
    cases,
    is_run_by_onnxruntime,
    run,
    run_in_onnxruntime,
)
from tests.cases import slow

WRONG_IN_ONNXRUNTIME = (
    *("attention_4d_diff_heads_mask4d_padded_kv", "attention_4d_causal_fp16", "dft", "stft"),
    *("attention_4d_with_past_and_present_qk_matmul_bias", "convinteger_with_padding"),
    *("training_dropout", "maxunpool_export_with_output_shape", "reduce_max_empty_set_bool"),
    *("resize_downsample_scales_linear_align", "resize_downsample_scales_cubic_align"),
)
"""Beginnings of names of cases that onnxruntime does not give the outputs of."""


def sample(size: int) -> list[Case]:
    """So many cases of each kind that onnxruntime runs, at equal distances."""
    known = [
        case
        for case in cases()
        if not case.name.removeprefix("test_").startswith(WRONG_IN_ONNXRUNTIME)
    ]
    distance = len(known) // (size + size // 3)
    return [case for case in known[::distance] if is_run_by_onnxruntime(case)][:size]


@pytest.mark.parametrize("size", [50, slow(150)])
def test_a_sample_of_the_tests_of_onnx_is_right(size: int) -> None:
    wrong = {}
    chosen = sample(size)
    for case in chosen:
        try:
            run(case)
        except Exception as error:
            wrong[case.name] = f"{type(error).__name__}: {error}"

    assert len(chosen) == size
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
