"""What the exports of tracing services have in common: flat records that name their parents.

A file is read record by record (`records`), records wait for the rest of their trace (`groups`);
what a function was given and gave is told as a request and an answer, whichever library it
belonged to (`spoken`, `gemini`), counts as figures (`figures`), and the spans of a trace are put
together in the words of OpenTelemetry's GenAI conventions (`traces`).
"""
