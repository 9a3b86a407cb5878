"""Questions over both migration sets: what was recorded joined with what is said of it.

A question that a person types is read by `language`, may ask the fields of `fields`, and is made
by `compile` into a `filter`, which says which runs are meant. `listing` lists them, `failures`
counts why they failed, `fields` also reads what the metrics are counted from. The views `runs` and
`failures` and the indices for such questions are made by `taxonomy.judgements.schema`.
"""
