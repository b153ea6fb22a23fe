"""`collage embed` and `collage extract`."""

import json
from pathlib import Path

import tvm

import collage_dsl
from tests.commands import assert_one_message, said

SPEC = """\
collage 1;

pattern p(x) {
  y = nn.relu(x);
  yield y;
}

target a on llvm(mcpu: "skylake-avx512", num_cores: 2) {
  compiler "acme";
  rules    dfpattern(p);
}
"""
TWO = """\
collage 1;
target a on llvm { rules op_call_by_kind(); }
target b on c { rules op_call_by_kind(); }
"""


def test_what_is_embedded_is_extracted(tmp_path: Path) -> None:
    (tmp_path / "a.collage").write_text(SPEC)

    embedded = said("embed", tmp_path / "a.collage")
    (tmp_path / "a.json").write_text(embedded.out)
    target = json.loads(embedded.out)

    assert target["mcpu"] == "skylake-avx512"
    assert target["num-cores"] == 2
    assert set(target) == {"kind", "mcpu", "num-cores", "feature.fusion_spec"}
    assert collage_dsl.extract(tvm.target.Target(target)) == collage_dsl.load(text=SPEC)["a"]
    assert said("extract", tmp_path / "a.json").out == SPEC


def test_one_of_several_targets_is_named(tmp_path: Path) -> None:
    (tmp_path / "two.collage").write_text(TWO)

    refused = said("embed", tmp_path / "two.collage")
    assert (refused.code, refused.out) == (2, "")
    assert "#NAME, one of a, b" in refused.err
    assert json.loads(said("embed", f"{tmp_path / 'two.collage'}#b").out)["kind"] == "c"


def test_an_option_that_tvm_does_not_know_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.collage").write_text(SPEC.replace("mcpu", "cpu"))

    done = said("embed", tmp_path / "a.collage")

    assert done.code == 1
    assert done.err == "error: TVM refuses the target `a`: Unknown config option 'cpu'\n"


def test_a_target_without_a_spec_is_said_to_have_none(tmp_path: Path) -> None:
    (tmp_path / "plain.json").write_text('{"kind": "llvm"}')

    done = said("extract", tmp_path / "plain.json")

    assert (done.code, done.out) == (1, "")
    assert "carries no fusion spec" in done.err


def test_a_target_written_the_original_way_is_told_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"kind": "llvm", "fusion_spec": "collage 1;"}')

    done = said("extract", tmp_path / "old.json")

    assert done.code == 1
    assert "collage.attach(" in done.err


def test_what_is_no_target_is_refused(tmp_path: Path) -> None:
    number = '{"kind": "llvm", "feature.fusion_spec": 7}'
    for text in ("[1]", "{", "null", "{}", number):
        (tmp_path / "bad.json").write_text(text)
        done = said("extract", tmp_path / "bad.json")
        assert (done.code, done.err.count("\n")) == (1, 1)
        assert "bad.json" in done.err


def test_several_specs_of_a_target_are_extracted_into_one_file(tmp_path: Path) -> None:
    specs = collage_dsl.load(text=TWO.replace(" on c ", " on llvm "))
    target = collage_dsl.attach({"kind": "llvm"}, *specs.values())
    (tmp_path / "two.json").write_text(json.dumps(dict(target.export()), default=str))

    done = said("extract", tmp_path / "two.json")

    assert done.code == 0, done.err
    assert collage_dsl.load(text=done.out) == specs


def test_specs_that_no_file_can_have_together_are_told(tmp_path: Path) -> None:
    spec = collage_dsl.load(text=SPEC.replace(', mcpu: "skylake-avx512"', ""))["a"]
    target = collage_dsl.attach({"kind": "llvm"}, spec, spec)
    (tmp_path / "two.json").write_text(json.dumps(dict(target.export()), default=str))

    done = said("extract", tmp_path / "two.json")

    assert (done.code, done.out) == (1, "")
    assert "one file cannot have all 2 specs of the target: two specs are named `a`" in done.err


def test_a_kind_that_tvm_does_not_have_is_told(tmp_path: Path) -> None:
    spec = tmp_path / "nokind.collage"
    spec.write_text("collage 1;\ntarget t on nokind { rules op_call_by_kind(); }\n")

    done = said("embed", spec)

    assert_one_message(done, 1, 'TVM refuses the target `t`: Target kind "nokind" is not defined')
