"""Today's rules for secrets, applied to what a database holds already.

`places` knows every column with text and `masks` the rules and their count. `content` masks what is
stored once and `tape` the spans that refer to it; `beside` masks the rest; `moved` remembers which
digest became which. `requests` tells which request every stored answer was to, before and after,
and `replays` keeps what was replayed true; `run` does it all in one transaction.
"""
