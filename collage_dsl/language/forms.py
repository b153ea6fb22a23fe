"""
Fusion specs as JSON and YAML, for programs that write or read them.

The form of each rule, pattern and condition is made from its class: an object with the fields
whose value differs from the default. `type` names the class if several classes are possible.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from math import inf
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import pydantic
import yaml
from typing_extensions import TypeAliasType

from collage_dsl.language.checked import checked
from collage_dsl.language.messages.findings import listed
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.language.syntax.whole_text import EDITION
from collage_dsl.printable import json_text, printable, printable_lines
from collage_dsl.reading import fault_in_words, first_fault
from collage_dsl.rules import FusionSpec
from collage_dsl.rules.condition import Constant
from collage_dsl.rules.pattern import Number
from collage_dsl.yaml_texts import MOST_CHARACTERS, YamlError, yaml_of

Specs = Mapping[str, FusionSpec]

_Value = TypeAliasType("_Value", "bool | int | float | str | list[_Value] | None")

_INFINITE = "-inf"
"""The infinite number of the language, of which JSON has none."""

_TAGS = {"DFPattern": "dfpattern", "Tagged": "composite", "TupleOf": "tuple", "FieldOf": "field"}
"""Classes that the language calls by another name."""


class FormError(Exception):
    """A JSON or YAML text does not have the form of fusion specs."""


class _Form(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )


def to_form(specs: Specs) -> dict[str, Any]:
    """The specs as plain dictionaries, lists, strings and numbers."""
    return {"collage": EDITION, "targets": [_plain(spec) for spec in specs.values()]}


def from_form(form: Any, *, name: str = "<form>") -> Specs:
    """
    The specs of `form`, checked like those in a file. Diagnostics show their text, under `name`.

    Raises FormError if `form` is not a form of specs, and RuleError for what would be wrong in a
    file too.
    """
    try:
        document = _document().model_validate(form)
        specs = [_built(each) for each in document.targets]  # type: ignore[attr-defined]
        return checked(specs, name)
    except pydantic.ValidationError as problem:
        raise FormError(first_fault(problem, _in_words)) from None
    except ValueError as problem:
        raise FormError(f"this cannot be said in the language: {problem}") from None
    except RecursionError:
        raise FormError("it is nested too deeply") from None


def to_json(specs: Specs) -> str:
    return json_text(to_form(specs))


def from_json(text: str, *, name: str = "<form>") -> Specs:
    """Raises FormError and RuleError, as `from_form` does."""
    try:
        if _short(text).count("{") > _MOST_PARTS:
            raise FormError(f"it has more than {_MOST_PARTS} objects")
        form = json.loads(text, object_pairs_hook=_with_distinct_keys)
    except FormError:
        raise
    except (ValueError, RecursionError) as problem:
        raise FormError(f"it is not JSON: {problem}") from None
    return from_form(form, name=name)


def _with_distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise FormError(f"the key `{key}` is there twice in one object")
        found[key] = value
    return found


def to_yaml(specs: Specs) -> str:
    form = to_form(specs)
    text: str = yaml.dump(form, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return printable_lines(text)


def from_yaml(text: str, *, name: str = "<form>") -> Specs:
    """Raises FormError and RuleError, as `from_form` does."""
    try:
        form = yaml_of(text)
    except YamlError as problem:
        raise FormError(str(problem)) from None
    return from_form(form, name=name)


def schema() -> dict[str, Any]:
    """The JSON Schema of the form."""
    return _document().model_json_schema()


_MOST_PARTS = 50_000
"""The most objects that are read: about two seconds' work."""


class _Dumper(yaml.SafeDumper):
    """Put strings of which something will be escaped in double quotes, where YAML has escapes."""


def _string(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = '"' if printable(text) != text or "::" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _string)


def _short(text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        raise FormError("it is longer than 1 MiB")
    return text


def _in_words(fault: Mapping[str, Any]) -> str:
    """What is wrong, with the words that are possible."""
    context = fault.get("ctx", {})
    match fault["type"]:
        case "literal_error":
            return f"this must be {context['expected']}"
        case "union_tag_invalid":
            known = re.findall(r"'(\w+)'", context["expected_tags"])
            hint = did_you_mean(context["tag"], known) or f"there are {listed(known, 'and')}"
            return f"there is no type `{context['tag']}` here; {hint}"
    return fault_in_words(fault)


# From specs to plain data.


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        cls = type(value)
        tag = {"type": _tag(cls)} if cls in _tagged() else {}
        said = {f.name: getattr(value, f.name) for f in _fields(cls)}
        usual = {f.name: _usual(f) for f in _fields(cls)}
        return tag | {name: _plain(each) for name, each in said.items() if each != usual[name]}
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return _INFINITE if value == -inf else value


def _fields(cls: Any) -> list[Field[Any]]:
    """The fields of `cls` that a spec has and that take part in comparison, so not its span."""
    return [f for f in fields(cls) if f.compare and f.metadata.get("in_spec", True)]


def _usual(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _tag(cls: type) -> str:
    words = "".join(f"_{c.lower()}" if c.isupper() else c for c in cls.__name__).lstrip("_")
    return _TAGS.get(cls.__name__, words)


# The models of the forms.


@cache
def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    if cls is Constant:
        hints["value"] = _Value
    if cls is Number:
        hints["value"] = float | Literal[_INFINITE]
    return {field.name: hints[field.name] for field in _fields(cls)}


@cache
def _classes() -> tuple[type, ...]:
    """All classes that a spec consists of."""
    found: dict[type, None] = {FusionSpec: None}
    waiting: list[type] = [FusionSpec]
    while waiting:
        for hint in _hints(waiting.pop()).values():
            new = [cls for cls in _inside(hint) if is_dataclass(cls) and cls not in found]
            found |= dict.fromkeys(new)
            waiting += new
    return tuple(found)


@cache
def _tagged() -> frozenset[type]:
    """The classes that share a place with other classes and so need a `type`."""
    places = [part for cls in _classes() for hint in _hints(cls).values() for part in _parts(hint)]
    found: set[type] = set()
    for place in places:
        choices = [choice for choice in _choices(place) if choice in _classes()]
        if len(choices) > 1:
            found.update(choices)
    return frozenset(found)


def _parts(hint: Any) -> Iterator[Any]:
    """`hint` and its type arguments, at every level."""
    yield hint
    for each in get_args(hint):
        yield from _parts(each)


def _inside(hint: Any) -> Iterator[type]:
    return (part for part in _parts(hint) if isinstance(part, type))


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (UnionType, Union) else ()


@cache
def _models() -> dict[type, type[_Form]]:
    names = [cls.__name__ for cls in _classes()]
    assert len(names) == len(set(names)), "two classes of one name"
    models = {cls: _model(cls) for cls in _classes()}
    namespace = {f"{cls.__name__}Form": model for cls, model in models.items()}
    for model in models.values():
        model.model_rebuild(_types_namespace={**namespace, "_Value": _Value})
    return models


def _model(cls: type) -> type[_Form]:
    parts: dict[str, Any] = {}
    if cls in _tagged():
        parts["type"] = (Literal[_tag(cls)], ...)
    hints = _hints(cls)
    for field in _fields(cls):
        default = _usual(field)
        is_needed = default is MISSING
        parts[field.name] = (_formed(hints[field.name]), ... if is_needed else _default(default))
    doc = " ".join((cls.__doc__ or "").split("\n\n")[0].split())
    if doc.startswith(f"{cls.__name__}("):  # written by `dataclass`
        doc = ""
    made: type[_Form] = pydantic.create_model(
        f"{cls.__name__}Form", __base__=_Form, __doc__=doc, **parts
    )
    return made


def _default(value: Any) -> Any:
    """The default in the schema: shown for lists and scalars, but not for objects."""
    has_fields = is_dataclass(value) or isinstance(value, Mapping)
    return pydantic.Field(default_factory=dict) if has_fields else _plain(value)


def _formed(hint: Any) -> Any:
    """The type in the form of a value of type `hint`."""
    if choices := _choices(hint):
        forms = tuple(_formed(each) for each in choices)
        one = Union[forms]  # type: ignore[valid-type]  # noqa: UP007
        tagged = all(is_dataclass(each) for each in choices)
        return Annotated[one, pydantic.Field(discriminator="type")] if tagged else one
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        return list[_formed(args[0])]  # type: ignore[misc]
    if origin is not None and origin is not Literal:
        return dict[str, _formed(args[1])]  # type: ignore[misc]
    if is_dataclass(hint):
        return f"{hint.__name__}Form"  # type: ignore[union-attr]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return Literal[tuple(each.name.lower() for each in hint)]
    return hint


@cache
def _document() -> type[_Form]:
    spec = _models()[FusionSpec]
    made: type[_Form] = pydantic.create_model(
        "SpecsForm",
        __base__=_Form,
        __doc__="The targets of a file, in order, each with its rule written out.",
        collage=(Literal[EDITION], ...),  # type: ignore[arg-type]
        targets=(list[spec], ...),  # type: ignore[valid-type]
    )
    return made


# From validated forms to specs.


def _built(form: _Form) -> Any:
    cls = next(cls for cls, model in _models().items() if type(form) is model)
    hints = _hints(cls)
    said = {name: getattr(form, name) for name in form.model_fields_set if name != "type"}
    return cls(**{name: _restored(value, hints[name]) for name, value in said.items()})


def _restored(value: Any, hint: Any) -> Any:
    if isinstance(value, _Form):
        return _built(value)
    if isinstance(value, dict):
        return {name: _restored(each, get_args(hint)[1]) for name, each in value.items()}
    if isinstance(value, list):
        inner = get_args(hint)[0] if get_origin(hint) is tuple else hint
        return tuple(_restored(each, inner) for each in value)
    if value == _INFINITE and hint in (_Value, float | Literal[_INFINITE]):
        return -inf
    for choice in (hint, *_choices(hint)):
        if isinstance(choice, type) and issubclass(choice, Enum) and value is not None:
            return choice[value.upper()]
    return value
