"""What a screen draws and a command prints: one frozen value each, and how it is built.

The structs here are the schema of `--json`. Nothing in this package imports Textual.
"""
