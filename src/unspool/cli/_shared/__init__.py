"""Code shared by several commands: options, output, the store, the client of a running server."""
