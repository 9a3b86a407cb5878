"""What did the user change? An edit is data: a named list of changes, never an edited prompt.

A change says what it does to any request it meets, so one edit can be tried on every step of a
trace and on other traces. A target that is not there is an error naming the step; the one thing
that is not an error is a message the conversation has not reached yet, or no longer holds.
"""
