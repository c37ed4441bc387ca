"""The documentation site: pages generated from the code, and hooks for MkDocs. `make docs` builds it."""
