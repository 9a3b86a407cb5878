"""Errors put into a recorded run on purpose: does the agent notice, and mend it within two steps?

`values` says what a wrong value of each sort looks like and where one stands, `prose` which ones
a plain text says; `derive` makes the error (`wrong`) of the recording, `choice` says where it is
put; `put` makes the recording in which the agent has met it, `run` lets the agent go on,
`mended` decides whether it was corrected. Its calls are answered from the tape as it was
recorded: the error is in what the agent was shown once, not in the world.
"""
