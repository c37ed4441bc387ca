"""Measures speed and memory, usually relative to a baseline measured in the same run: `make bench`."""
