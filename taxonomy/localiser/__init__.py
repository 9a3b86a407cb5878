"""Which step broke the run: signs against each step, their weights, and up to three candidates.

Owned here: the signs and how they add up. Not owned: the findings of rules that are one of them
(`taxonomy.rules`), and how often the candidates are right (`taxonomy.calibration`).
"""
