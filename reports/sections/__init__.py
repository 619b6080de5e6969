"""The parts of report.html, one a file; page.py puts them in order."""
