"""What several commands share: options, output, the store, talking to a server."""
