"""One collapse a file, named for its symptom."""
