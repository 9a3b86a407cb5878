"""A small shop whose support agent runs on the demo model: the source of `fixtures/traces`.

Its tools are real functions, so they live here and not in the product, which never runs a tool.
`python -m tests.shop` records every run again; twice gives the same bytes.
"""
