"""Names that act on a terminal or a CI service, or that break a format, if they are not escaped."""

NAMES = {
    "terminal controls": "\x1b[2J\x1b]0;title\x07\x9b31m\x08\x7f",
    "a link of a terminal": "\x1b]8;;http://example.com\x1b\\text\x1b]8;;\x1b\\",
    "line breaks": "a\r\n::error file=x::y\n##vso[task.complete]\u2028::stop-commands::z\x85\x0c",
    "a command of GitHub": "::error file=app.js,line=1::told",
    "a command of GitHub after spaces": "  ::set-output name=x::y",
    "an older command of GitHub": "##[add-path]x",
    "a command of Azure": "##vso[task.setvariable variable=x]y",
    "a command of TeamCity": "##teamcity[buildStop comment='x']",
    "a section of GitLab": "section_start:1:x\r\x1b[0K",
    "directions of writing": "\u202eone\u2066two\u2069\u200f\u061c\u202c",
    "invisible characters": "a\u200b\u200d\ufeff\u00ad\U000e0041b",
    "markup": "]]><script>alert(1)</script>&amp;\"'<!--",
    "shell and templates": "%0A${{ github.token }}`$(id)`\\u0041\\x1b",
    "an option": "--traceback",
    "combining characters": "e" + "\u0301\u0336" * 20,
    "other scripts": "模型 é \U0001f600",
}

NOT_UTF8 = "a byte \udcff"
"""A file name with a byte that is not UTF-8, as Python has it."""

LONG = "n" * 20_000
