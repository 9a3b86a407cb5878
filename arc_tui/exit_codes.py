"""The exit codes of `arc`, as `arc help exit-codes` prints them."""

USER_ERROR = 2
BUG = 3
INTERRUPTED = 130

MEANINGS = {
    "0": "answered, as expected; a list may be empty, a finished replay may diverge",
    "1": "the answer is no: search and diagnose found none, compare differs, bisect names no"
    " culprit, try or suggest found no significant fix, a probe is inconclusive, doctor or verify"
    " failed, db export or db import left something out; replay --exit-code: the edit diverges;"
    " calibrate --check: not approved; gate: a regression; golden check: a problem was found",
    "2": "usage, bad input, not answered (a response is not cached, or was declined), unfinished;"
    " gate: nothing to compare, or too little power where it is required",
    "3": "a bug in arc: the traceback is on standard error",
    "125": "replay --expect only: inconclusive (git bisect run skips the revision)",
    "128": "replay --expect only: bad input (git bisect run stops)",
    "129": "replay --expect only: a bug in arc",
    "130": "interrupted by ctrl-c; completed calls are saved",
}
"""What each code means. `arc record` returns the code of the command that it records."""
