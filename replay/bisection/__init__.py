"""Which of many versions broke it? A search over noisy answers, step by step.

`change_point` says how likely each version is the first bad one, `search` which answers to ask for
next and when enough is known, `hunks` how the parts of one change become versions. Nothing here
asks anybody: a search says which samples it wants and is told what they showed.
"""
