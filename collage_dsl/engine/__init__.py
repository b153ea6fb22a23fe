"""Run the four steps in order: gather, propose, choose, realize."""
