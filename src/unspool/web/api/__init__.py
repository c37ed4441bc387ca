"""The JSON API: the data of the pages, for programs."""
