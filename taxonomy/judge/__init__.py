"""A model's opinion of a run's steps: asked, read, refused where it will not do, and kept.

`exhibit` chooses what a mode shows, `sheet` collects it, `blind` takes the outcome out of it,
`fence` marks it as data. `inquiry` makes the requests, `verdict` reads one answer, `bench` puts
the samples of a step together, `kept` writes scores down. `rule_judge` stands in where no model
is asked, `family` says who judges its own kind. What is asked in words is in
`taxonomy.judge.rubrics`.
"""
