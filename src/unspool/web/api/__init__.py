"""The JSON API: what pages show, for programs."""
