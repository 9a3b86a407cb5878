"""Which of many versions broke it? A search over noisy answers, step by step.

`change_point` counts the samples and says how likely each version is the first bad one; `search`
says which samples to ask for next and when enough is known, in `rounds`. `hunks` says how the parts
of one change become versions, `scan` how steps are searched where a detector is not noisy. None of
these asks anybody: a search says which samples it wants and is told what they showed.

`trials` are the samples: answers at one step, or whole free runs; `course` brings a search and its
samples together.
"""
