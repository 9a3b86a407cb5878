"""The pictures of README and docs, drawn by the real app: `python -m tests.pictures`."""
