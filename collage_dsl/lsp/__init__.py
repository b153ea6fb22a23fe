"""
The language server: what an editor asks about spec files while they are being written.

`server` alone knows the protocol. What it answers comes from pure functions over documents and
offsets, which run no code of a spec and need nothing but the language.
"""
