"""Errors put into a recorded run on purpose: does the agent notice, and mend it within two steps?

`values` says what a wrong value of each sort looks like and where one stands; `derive` makes the
error of the recording, also in plain prose; `run` puts it where the agent meets it, lets the agent
go on and decides whether it was corrected. Its calls are answered from the tape as it was
recorded: the error is in what the agent was shown once, not in the world.
"""
