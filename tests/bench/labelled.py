"""The shared label sets as sources: which files are of one kind of agent, and their runs.

Two files of TRAIL are one source: the same annotators, the same format. The labels of the airline
runs are a rule's word, which can only ever point at a write: nothing is fitted on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from arc_tui import importing
from replay.store.handle import Store
from taxonomy.calibration.sources import LabelFile, SourceRun, Sources, read_file
from taxonomy.judgements.schema import open_ledger
from tests.shared import DATA

SOURCES: Mapping[str, Mapping[str, str]] = {
    "whowhen_ag": {"whowhen_ag": "whowhen"},
    "trail": {"trail_gaia": "trail_gaia", "trail_swe_bench": "trail_swe"},
    "apb_hotpotqa": {"apb_hotpotqa": "apb_hotpotqa"},
    "tau_airline": {"tau_airline": "tau_bench"},
}
"""By source its label files, and the folder of the traces of each."""


def shared_store(folder: Path) -> Store:
    """A database in `folder` of the runs of all sources."""
    store = open_ledger(folder / "labelled.db")
    traces = [DATA / traces for files in SOURCES.values() for traces in files.values()]
    for _ in importing.import_paths(store, traces):
        pass
    return store


def shared_files(store: Store, *, is_hidden: bool = True) -> list[LabelFile]:
    """The label files and their runs, the outcome hidden from the rules or not."""
    return [
        read_file(store, DATA / "labels" / f"{name}.jsonl", source, is_hidden=is_hidden)
        for source, files in SOURCES.items()
        for name in files
    ]


def human_sources(files: Sequence[LabelFile], *, without: str = "") -> Sources:
    """The runs of each source that people labelled, but one."""
    found: dict[str, list[SourceRun]] = {}
    for each in files:
        if each.made_by == "people" and each.source != without:
            found.setdefault(each.source, []).extend(each.runs)
    return found
