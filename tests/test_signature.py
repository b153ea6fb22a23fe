"""The signature of a compiled model, as it is written to its folder."""

import hashlib
import json
from typing import Any

import pytest

from collage_dsl.language import parse_graph
from collage_dsl.realization.saving import load_executable
from collage_dsl.realization.signature import ExecutableError, Signature, Value
from collage_dsl.saved import SIGNATURE

SIGNED = Signature((Value("x", "float32", (2, 3)),), (Value("y", "float32", (2,)),), "7")


def changed(**fields: Any) -> str:
    """The text of the signature with other fields, and a checksum that is right; None drops one."""
    said = {**json.loads(SIGNED.to_json()), **fields}
    kept = {name: value for name, value in said.items() if value is not None and name != "checksum"}
    checksum = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
    return json.dumps({**kept, "checksum": checksum})


def test_what_is_written_is_read() -> None:
    assert Signature.from_json(SIGNED.to_json()) == SIGNED


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"format": 5}, "has format 5, this version reads 4"),
        ({"format": None}, "has format 1, this version reads 4"),
        ({"tvm": "0.99"}, "is of TVM 0.99"),
    ],
)
def test_a_folder_of_another_version_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ExecutableError, match=f"{said}.*: compile it again"):
        Signature.from_json(changed(**fields))


def test_a_signature_without_a_field_is_damaged(tmp_path: Any) -> None:
    (tmp_path / SIGNATURE).write_text(changed(outputs=None), "utf-8")
    (tmp_path / "model.so").write_bytes(b"1234567")

    with pytest.raises(
        ExecutableError, match=r"is damaged: signature\.json: outputs: this field is missing"
    ):
        load_executable(tmp_path)


def test_a_dimension_of_any_size_has_its_name() -> None:
    signature = Signature.of(parse_graph("x: f32[n, 4]; y = exp(x); return y;"))

    (value,) = signature.inputs
    assert (value.shape, value.static_shape, str(value)) == (("n", 4), None, "float32[n, 4]")
    assert Signature.from_json(signature.to_json()) == signature
