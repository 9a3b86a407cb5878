"""Spans of OpenTelemetry's GenAI conventions, for every format that has them or is brought to them.

`records` are spans and logs as they were read, and what an attribute may spell; `attributes` the
names that one thing has had; `messages` and `calls` read what a model was asked and
answered, `functions` the same out of what a function was given and gave back. `logs` adds what log
records tell of a span, `builder` makes the spans of a trace; `services` is what the exports of
tracing services have in common: flat records that name their parents.
"""
