"""`arc mcp`: what coding agents ask of runs, by the Model Context Protocol over stdio.

`answers` says how an answer looks, `questions` (of one run), `lists` (of many) and `changes` what
each tool does, `resources` what can be read whole, `tools` what there is and which arguments are
taken; `server` speaks the protocol, and it alone knows the SDK.
"""
