"""From sessions on disk to sessions in a store: the text to search, the bytes to archive, and what has changed."""
