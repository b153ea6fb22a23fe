"""The four steps in order: gather, propose, choose, realize."""
