"""Mistakes in imports."""

from collage_dsl.language.syntax.mistakes import NAME, Mistake

_RENAMED = rf"{NAME}(?:\s+as\s+{NAME})?+"
_NAMES = rf"{_RENAMED}(?:\s*,\s*{_RENAMED})*+"

IMPORTS = (
    Mistake(
        r"^import\s+", r"(?P<path>[\w.-]+(?:/[\w.-]+)+|\w+\.collage)", 'write `import "{path}"`'
    ),
    Mistake(
        "^",
        rf'from\s+(?P<path>"[^"\n]*")\s+import\s+\(?\s*(?P<names>{_NAMES})\s*\)?\s*;',
        "write `import {path} only ({names});`",
    ),
    Mistake(
        r"^import\s+",
        rf'[({{]?\s*(?P<names>{_NAMES})\s*[)}}]?\s+from\s+(?P<path>"[^"\n]*")',
        "write `import {path} only ({names})`",
    ),
    Mistake(
        r'^import\s+(?P<path>"[^"\n]*")\s*',
        rf"(?:import\b|with\b|:)?\s*[({{\[]?\s*(?P<names>{_NAMES})\s*[)}}\]]?\s*;",
        "write `import {path} only ({names});`",
    ),
    Mistake(
        r'^import\s+"[^"\n]*"\s*(?P<start>)only\s*',
        rf"[({{\[]?\s*(?P<names>{_NAMES})\s*[)}}\]]?(?=\s*;)",
        "write `only ({names})`",
    ),
    Mistake(
        r'^import\s+"[^"\n]*"\s*(?P<start>)only\s*\(?\s*',
        r"\*\s*\)?",
        "write `as std` to import all names, as `std.act`",
        new="as std",
    ),
    Mistake(
        rf'^import\s+"[^"\n]*"\s*as\s+{NAME}\s*',
        r"only\b",
        "an import has `as` for all names, or `only` for some, and not both",
    ),
    Mistake(
        rf"^import\b.*[(,]\s*(?P<name>{NAME})\s+as\s*",
        "[,);]",
        "another name follows after `as`: `{name} as other`",
    ),
    Mistake(
        r"^import\s+pattern_table\s+(?P<start>)",
        rf"(?P<name>{NAME})(?=\s*;)",
        'write `"{name}" as {name}`',
    ),
    Mistake(r"^import\s+pattern_table\s+(?P<start>)", rf"(?P<name>{NAME})", 'write `"{name}"`'),
    Mistake(
        r"^import\s+",
        rf"(?:{NAME}|\*|\{{)",
        'a file stands in quotes: `import "std/activations.collage" only (act);`',
    ),
)
