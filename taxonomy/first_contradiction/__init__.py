"""Belief against world: at which step did a run stop agreeing with what it had been shown?

Four oracles answer by step. `contradictions` reads what was said and done (free), `probe` asks
the model what it believes and compares (a call a step), `judged` has a judge score each step (a
call a step), `savable` lets the run go on with a fix and looks where it ends (several runs a
step). What each finds is a hypothesis; `trial` tests one by asking the step again, with a fix
and without.
"""
