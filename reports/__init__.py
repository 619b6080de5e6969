"""Metrics, intervals and verdicts from records alone; the tables and pages that show them."""
