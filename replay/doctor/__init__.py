"""Is this installation sound, and does a server behave as replay assumes?

`database` and `machine` look without asking anybody. `assumptions` lists what replay takes for
granted about the Messages API; `checkup` puts each of them to a real server, through a `Desk`,
and `report` is what came of it. What a report looks like on paper is not decided here.
"""
