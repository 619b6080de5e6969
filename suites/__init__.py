"""Experiments written down before they run: the suite model, sealing, and the suites themselves."""
