"""The same request in other words: is a failure one of the wording, or one of the model?

`sameness` says whether a paraphrase still asks for the same, `written`, `asked` and `framed`
where paraphrases come from, `road` which answers to them are judged, `opinion` what a judge says
of one, `varied` what it comes to and how it is kept. Asking the model is `replay.locked`'s.
"""
