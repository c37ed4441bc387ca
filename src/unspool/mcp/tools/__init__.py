"""The tools, one module each: a function that turns a request and its parameters into an answer."""
