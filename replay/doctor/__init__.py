"""Is this installation sound, and does a server behave as replay assumes?

`checks` look at this machine without asking anybody. `checkup` puts what replay takes for granted
about the Messages API to a real server (`probes`), in a `CheckContext`, and reports what came of
it. What a report looks like on paper is not decided here.
"""
