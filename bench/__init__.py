"""Speed and memory, always against a floor measured in the same run: `make bench`."""
