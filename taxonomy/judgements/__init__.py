"""Judgements kept: tags, suggestions, scores, diagnoses; a migration set of their own.

Everything hangs on a trace's id and a span's id, never on row numbers, so it survives a trace
that is imported again and grew. Rules and judge write suggestions; only a person's word is a
tag.
"""
