"""Random specs: the words of one in another order, and changes to shipped ones."""

from functools import cache
from pathlib import Path
from random import Random

from tests.fuzz.protobuf import damaged
from tests.hostile import TOKENS
from tests.test_language_fuzz import SPEC

SHIPPED = Path(__file__).parent.parent.parent / "specs"


def spec(chosen: Random) -> bytes:
    """The content of a spec file, or nearly one."""
    if chosen.random() < 0.1:
        return ("collage 1; " + " ".join(chosen.choices(TOKENS, k=40))).encode()
    text = chosen.choice(texts())
    for _ in range(chosen.randrange(5)):
        start = chosen.randrange(len(text) + 1)
        end = start + chosen.randrange(9)
        text = f"{text[:start]} {chosen.choice(TOKENS)} {text[end:]}"
    content = text.encode()
    return damaged(content, chosen) if chosen.random() < 0.2 else content


@cache
def texts() -> tuple[str, ...]:
    shipped = sorted(SHIPPED.rglob("*.collage"))
    return SPEC, SPEC, *(path.read_text("utf-8") for path in shipped)
