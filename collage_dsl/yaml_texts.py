"""Read YAML texts that may be anything: endless, damaged, or small and yet huge."""

from typing import Any

import yaml

MOST_CHARACTERS = 1 << 20
"""The longest text that is read."""


class YamlError(ValueError):
    """A text is not YAML, or has something that is not read: aliases, or a key twice."""


def yaml_of(text: str) -> Any:
    """The value of a YAML text. Raises `YamlError`."""
    if len(text) > MOST_CHARACTERS:
        raise YamlError("it is longer than 1 MiB")
    try:
        return yaml.load(text, Loader=_Loader)
    except YamlError:
        raise
    except (yaml.YAMLError, ValueError) as problem:
        if isinstance(problem, yaml.MarkedYAMLError):
            _leave_out_excerpts(problem)
        said = " ".join(str(problem).replace('in "<unicode string>", ', "at ").split())
        raise YamlError(f"it is not YAML: {said}") from None
    except RecursionError:
        raise YamlError("it is not YAML: it is nested too deeply") from None


def _leave_out_excerpts(problem: yaml.MarkedYAMLError) -> None:
    """Leave the lines of the text out of a message that becomes one line."""
    for mark in (problem.context_mark, problem.problem_mark):
        if mark is not None:
            mark.buffer = None


_MOST_PARTS = 50_000
"""The most values that are read: about two seconds' work."""

_LONGEST_NUMBER = 100


class _Loader(yaml.SafeLoader):
    """Refuse aliases and numbers like `1:30:00`, by which a small text can become huge."""

    parts = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.parts += 1
        if self.parts > _MOST_PARTS:
            raise YamlError(f"it has more than {_MOST_PARTS} values")
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not read", event.start_mark)
        node: Any = super().compose_node(parent, index)
        is_number = node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
        if is_number and len(node.value) > _LONGEST_NUMBER:
            raise yaml.composer.ComposerError(None, None, "a number is too long", node.start_mark)
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and (key.tag, key.value) in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key `{key.value}` is there twice", key.start_mark
                )
            seen.add((key.tag, str(key.value)))
        return super().construct_mapping(node, deep)
