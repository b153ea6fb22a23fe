"""
The language server. It answers an editor's questions about spec files while they are written.

Only `server`, `requests` and `converting` know the protocol. The answers come from pure functions
over documents and offsets. They run no code of a spec and need only the language.
"""
