"""Probes: one change at the step that broke, asked again; only then is a cause named.

`table` is the protocol: symptom, candidates, change, what either result means, what to do then.
`symptom` says which rows fit a run, `presets` makes the change as an edit, `summary` writes what
an agent is given in place of its history, `result` reads what came of it, `log` keeps it.
"""
