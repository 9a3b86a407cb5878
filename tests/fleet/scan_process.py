"""`arc fleet scan prod …` in a process of its own, with partitions of ARC_TEST_TOGETHER traces."""

import os
import sys

from arc_tui.commands import cli
from taxonomy.fleet import partitions

if __name__ == "__main__":
    partitions.TOGETHER = int(os.environ["ARC_TEST_TOGETHER"])
    cli(["fleet", "scan", "prod", *sys.argv[1:]])
