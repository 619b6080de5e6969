"""Arrivals, traffic mixes, the streaming client and its records."""
