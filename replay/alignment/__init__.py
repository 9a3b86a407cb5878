"""Which step of one run answers to which of another, and where do the two part for good?

Runs are laid beside each other by what each step did, never by its place: a `deed` is an action
in a form that many can be held against many, `best` finds the pairs that are likest altogether,
`cuts` divides what is too long for that. `rows` are the pairs with what differs in each, by the
rules of `replay.compare`; `regrouping` finds the calls that only fell into other steps,
`departure` says from which row on the runs stay apart.
"""
