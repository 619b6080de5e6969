"""Composition root: the command line, and a run from suite to records."""
