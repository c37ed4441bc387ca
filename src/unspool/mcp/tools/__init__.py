"""The tools, one module each: a function that takes a request and its parameters and returns text."""
