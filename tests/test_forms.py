"""Specs as JSON and YAML, and back."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from collage_dsl.diagnostics import RuleError
from collage_dsl.graph import Toolchain
from collage_dsl.language import load, to_text
from collage_dsl.language.forms import (
    FormError,
    from_form,
    from_json,
    from_yaml,
    schema,
    to_form,
    to_json,
    to_yaml,
)
from collage_dsl.rules import FusionSpec, OpCallByKind, Tagged
from tests.cases import cases, sample
from tests.commands import assert_one_message, said
from tests.test_language_documents import examples
from tests.test_language_fuzz import SPEC
from tests.test_language_round_trip import specs

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import schemas  # noqa: E402


def one_of_type(
    validator: Any, choices: list[Any], value: Any, said: dict[str, Any]
) -> Iterator[jsonschema.ValidationError]:
    """Each choice has a `type` of its own: only the one that is named can hold."""
    mapping = said.get("discriminator", {}).get("mapping", {})
    if isinstance(value, dict) and value.get("type") in mapping:
        yield from validator.descend(value, {"$ref": mapping[value["type"]]})
    else:
        yield from jsonschema.Draft202012Validator.VALIDATORS["oneOf"](
            validator, choices, value, said
        )


VALIDATOR = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"oneOf": one_of_type})(
    schema()
)


def comes_back(found: Mapping[str, FusionSpec]) -> None:
    form = to_json(found)
    VALIDATOR.validate(json.loads(form))
    read_back = from_json(form)
    assert read_back == found
    assert from_yaml(to_yaml(found)) == found
    assert load(text=to_text(read_back)) == found


@cases(20)
@given(specs)
def test_a_spec_comes_back_from_json_and_yaml_as_it_was(spec: FusionSpec) -> None:
    comes_back({spec.name: spec})


def test_none_is_null() -> None:
    brackets = "[axis in [none, [0]], axis != none]"
    found = load(
        text=f"collage 1; pattern p(x) {{ y = sum(x) {brackets}; yield y; }}"
        " target t on llvm { rules dfpattern(p); }"
    )

    comes_back(found)
    asked = to_form(found)["targets"][0]["rule"]["pattern"]["bindings"][0]["value"]["attributes"]
    assert asked[0]["condition"]["choices"] == {"type": "constant", "value": [None, [0]]}
    assert asked[1]["condition"]["right"] == {"type": "constant", "value": None}
    assert "value: null" in to_yaml(found)


@pytest.mark.parametrize("text", ["a\x85b", "\x85", "a\u2028b", "a\u2029 b", "\ufeff", "a\r", " "])
def test_no_character_of_a_label_is_lost(text: str) -> None:
    rule = Tagged(text, OpCallByKind())

    comes_back({"t": FusionSpec(Toolchain("t", "llvm"), rule)})


@pytest.mark.parametrize(
    "text",
    sample(
        12,
        [SPEC, *(e.text for e in examples() if e.language == "collage" and "target " in e.text)],
    ),
    ids=lambda text: text[11:40],
)
def test_the_examples_of_the_language_come_back_as_they_were(text: str) -> None:
    try:
        found = load(text=text, search=[Path(__file__).parent / "language"])
    except RuleError:
        return
    comes_back(found)


def test_what_has_its_usual_value_is_left_out() -> None:
    text = "collage 1; target t on llvm { rules op_call_by_kind(anchor); }"

    assert to_form(load(text=text)) == {
        "collage": 1,
        "targets": [
            {"target": {"name": "t"}, "rule": {"type": "op_call_by_kind", "kinds": ["anchor"]}}
        ],
    }


RULE = {"type": "op_call_by_kind"}


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (None, "an object with fields is needed"),
        ({"collage": 2, "targets": []}, "collage: this must be 1"),
        (
            {"collage": 1, "targets": [{"target": {"name": "t"}}]},
            "targets.0.rule: this field is missing",
        ),
        (
            {"collage": 1, "targets": [{"target": {"name": "t"}, "rule": {"type": "x"}}]},
            "targets.0.rule: there is no type `x` here; there are `op_call_by_kind`, `dfpattern`,",
        ),
        (
            {"collage": 1, "targets": [{"target": {"name": "t"}, "rule": {"type": "dfpatern"}}]},
            "targets.0.rule: there is no type `dfpatern` here; did you mean `dfpattern`?",
        ),
        (
            {"collage": 1, "targets": [{"target": {"name": "t"}, "rule": {**RULE, "kind": 1}}]},
            "targets.0.rule.op_call_by_kind.kind: there is no field of this name",
        ),
        (
            {"collage": 1, "targets": [{"target": {"name": "t"}, "rule": RULE}] * 2},
            "cannot be said",
        ),
    ],
)
def test_what_is_no_form_is_refused(form: object, said: str) -> None:
    with pytest.raises(FormError) as caught:
        from_form(form)

    assert said in str(caught.value)


def test_a_form_cannot_smuggle_in_text() -> None:
    name = "t on llvm { rules op_call_by_kind(); } target u"
    form = {"collage": 1, "targets": [{"target": {"name": name}, "rule": RULE}]}

    with pytest.raises(FormError):
        from_form(form)


def test_what_a_file_could_not_say_either_has_diagnostics() -> None:
    rule = {"type": "only_valid", "rule": RULE, "limits": {"max_exits": 0}}

    with pytest.raises(RuleError):
        from_form({"collage": 1, "targets": [{"target": {"name": "t"}, "rule": rule}]})


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "x" * (1 << 21)])
def test_a_text_that_is_not_json_or_yaml_is_refused(text: str) -> None:
    with pytest.raises(FormError):
        from_json(text)
    with pytest.raises(FormError):
        from_yaml(text[:2000])


def test_aliases_which_could_stand_for_a_huge_text_are_refused() -> None:
    with pytest.raises(FormError, match="aliases are not read"):
        from_yaml("a: &a [1, 1]\nb: &b [*a, *a]\nc: [*b, *b]\n")


def test_the_schema_in_the_documentation_is_that_of_the_code() -> None:
    path = ROOT / "docs" / "schemas" / "spec.json"

    assert path.read_text("utf-8") == schemas.spec_schema(), "run scripts/schemas.py"


def test_convert_goes_there_and_back(tmp_path: Path) -> None:
    path = ROOT / "specs" / "onnxruntime.collage"
    written = load(path)
    for form, suffix in (("json", ".json"), ("yaml", ".yml")):
        there = tmp_path / f"spec{suffix}"
        there.write_text(said("convert", path, "--to", form).out)
        back = said("convert", there, "--to", "collage")
        assert back.code == 0
        assert load(text=back.out) == written
        (tmp_path / "back.collage").write_text(back.out)
        assert said("fmt", "--check", tmp_path / "back.collage").code == 0


def test_convert_says_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text("{}")

    done = said("convert", path, "--to", "collage")

    assert_one_message(done, 1, "spec.json: collage: this field is missing")


def test_convert_names_the_file_of_a_mistake_that_a_spec_file_can_have(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    target = {"target": {"name": "x y"}, "rule": {"type": "op_call_by_kind"}}
    path.write_text(json.dumps({"collage": 1, "targets": [target]}))

    done = said("convert", path, "--to", "collage")

    assert done.code == 1
    assert done.err.startswith(f"{path} as a spec file:3:10: error[E0101]: ")


def test_a_file_without_targets_is_not_converted(tmp_path: Path) -> None:
    path = tmp_path / "patterns.collage"
    path.write_text("collage 1;\npattern p(x) { y = nn.relu(x); yield y; }\n")

    done = said("convert", path, "--to", "yaml")

    assert_one_message(done, 1, "patterns.collage: it has no target")
    assert not done.out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"collage": 1, "collage": 1, "targets": []}', "the key `collage` is there twice"),
        ("[]", "^an object with fields is needed here$"),
        ('{"collage": 1, "targets": [3]}', "^targets.0: an object with fields is needed here$"),
        ('{"collage": 1, "targets": [{"target": 3}]}', "targets.0.target: an object with fields"),
    ],
)
def test_a_json_value_of_the_wrong_form_is_named_in_plain_words(text: str, says: str) -> None:
    with pytest.raises(FormError, match=says):
        from_json(text)


def test_the_place_of_a_mistake_in_yaml_is_a_line() -> None:
    with pytest.raises(FormError, match=r"at line 2, column 1"):
        from_yaml("a: [\n")
