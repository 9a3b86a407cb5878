"""`arc pull …` in a process of its own, which lists so few runs at a time."""

import sys

from arc_tui.commands import cli
from arc_tui.features.fleet import servers

if __name__ == "__main__":
    servers.TOGETHER = 3
    cli(["pull", *sys.argv[1:]])
