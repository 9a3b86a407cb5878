"""What a run said, was told and saw, read so that rules can point at it.

Owned here: which text stands where, which of it is a value, where a value came from. Not owned:
what a fault is (`taxonomy.rules`), and which step broke the run (`taxonomy.localiser`).
"""
