"""From sessions on disk to sessions in a store: what to search for, what to keep, and what has changed."""
