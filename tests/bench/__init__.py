"""Speed as ratios, each measured in one run: `python -m tests.bench [WORD…]`."""
