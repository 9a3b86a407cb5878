"""The pictures of the README, drawn by the real app: `python -m tests.pictures`."""
