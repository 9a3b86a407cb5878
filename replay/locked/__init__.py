"""Locked replay: the model asked again at every recorded step, with the recorded context.

`run` asks one trace or several at once, `arms` one trace under several edits; `row` is a step
under way. `estimate` says what that would
cost. `tally` counts the samples, and `verdict` says what may be said of them.
"""
