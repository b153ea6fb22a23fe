"""Check specs that were built in Python as if they were read from a file."""

from collections.abc import Mapping, Sequence

from collage_dsl.language.loading import load
from collage_dsl.language.write.printer import to_text
from collage_dsl.rules import FusionSpec


def checked(specs: Sequence[FusionSpec], name: str) -> Mapping[str, FusionSpec]:
    """
    Return the same specs after checking their text, which messages call `name`.

    Raises RuleError with everything that is wrong, and ValueError for what no text can express,
    such as a name with a space in it.
    """
    loaded = load(text=to_text({spec.name: spec for spec in specs}), name=name)
    if list(loaded.values()) != list(specs):
        raise ValueError("a name is used twice, or is none that a text can have")
    return loaded
