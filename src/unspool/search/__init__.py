"""Looking for words in sessions: the language of queries, how text is cut into words, and what to show of a hit."""
