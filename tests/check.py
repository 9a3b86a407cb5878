"""`python -m tests.check`: format, lint, types, import contracts; stops at none, fails on any."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

CHECKS: dict[str, list[str]] = {
    "format": [sys.executable, "-m", "ruff", "format", "--check", "."],
    "lint": [sys.executable, "-m", "ruff", "check", "."],
    "types": [sys.executable, "-m", "mypy"],
    "imports": [str(Path(sys.executable).with_name("lint-imports"))],
}


def main() -> int:
    failed = []
    for name, command in CHECKS.items():
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        print(f"{name}: {'ok' if done.returncode == 0 else 'failed'}", flush=True)
        if done.returncode:
            failed.append(name)
            print(done.stdout + done.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
