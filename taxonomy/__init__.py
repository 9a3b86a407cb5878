"""Judgements: what is said about a tape; a score, a tag, a break point, a rate.

Reads `replay`, never `arc_tui`.
"""
