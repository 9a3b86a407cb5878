"""Sessions that agents recorded themselves; README.md says how."""

from pathlib import Path

RECORDED = Path(__file__).parent
