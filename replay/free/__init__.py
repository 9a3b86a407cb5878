"""Free replay: the edited agent goes on by itself, its calls answered from the tape or not at all.

`run` asks, one run or several side by side, and each goes along a `course`; `growth` is the
conversation that grows off the recorded road, `result` what it came to. `tape` finds the
recorded observation of a call, out of what `recorded` makes of a trace; `nearest` says what
comes closest to a call it does not know, `stub` what a user answers instead.
"""
