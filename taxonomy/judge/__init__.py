"""A model's opinion of a run's steps: asked, read, refused where it will not do, and kept.

`rubrics` has what is asked in words, `exhibit` what a mode shows; `requests` makes the requests and
reads one answer, `scores` puts the samples of a step together, or has the rules stand in where no
model is asked, and writes scores down.
"""
