"""First contradiction: at which step did a run stop agreeing with what it had been shown?

Four detectors answer by step. `contradictions` reads what was said and done (free), `question` asks
the model what it believes and compares (a call a step), `judged` has a judge score each step (a
call a step), `recoverable` lets the run go on with a fix and looks where it ends (several runs a
step). What each finds is a hypothesis.
"""
