"""The same request in other words: is a failure one of the wording, or one of the model?

`paraphrases` says where paraphrases come from and whether one still asks for the same, `result`
which answers to them are judged, what it comes to and how it is kept. Asking the model is
`replay.locked`'s.
"""
