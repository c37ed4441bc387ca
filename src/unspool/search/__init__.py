"""Search without a database: the query language, the tokenizer, and snippets of hits."""
