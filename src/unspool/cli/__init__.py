"""The command line: parse, call, print. One module a command."""
