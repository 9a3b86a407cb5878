"""Tapes: what a model was asked, what it answered, what the tools returned, and playing it back.

Imports neither `taxonomy` nor `arc_tui`. Plain synchronous code and frozen values.
"""
