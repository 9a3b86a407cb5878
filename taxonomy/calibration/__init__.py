"""How right rules, judge and localiser are, held against labels and beside blind guesses.

Owned here: labels, what they are held against, the figures and the gate of a judge. Not owned:
the judgements themselves.
"""
