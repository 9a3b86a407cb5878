"""The figures of `arc stats`: what the formulas say of the runs found.

Owned here: which numbers of which runs go into which formula. Not owned: the formulas
(`taxonomy.metrics`).
"""
