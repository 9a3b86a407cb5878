"""Free replay: the edited agent goes on by itself, its calls answered from the recording or a stub.

`run` asks, one run or several side by side, and `result` is what it came to. `recorded_results`
finds the recorded result of a call, out of what `recorded` makes of a trace.
"""
