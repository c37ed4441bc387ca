"""From bytes to records: files, lines, JSON. Nothing here knows what a record means."""
