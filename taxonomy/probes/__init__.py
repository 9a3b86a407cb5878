"""Probes: one change at the step that broke, asked again; only then is a cause named.

`symptoms` is the protocol: symptom, candidates, change, what either result means, what to do then,
and which rows fit a run. `presets` makes the change as an edit, `result` reads what came of it and
keeps it.
"""
