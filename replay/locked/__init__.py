"""Locked replay: the model asked again at every recorded step, with the recorded context.

`run` asks one trace, `lanes` several at once, both by `asking`; `row` is a step under way and
`step_result` what came of it; `sampling` says how often and in which order, `estimate` what that
costs. `tally` counts the samples, `marks` and `verdict` say what may be said of them and
`sentence` how; `result` is the value that the digest is taken over.
"""
