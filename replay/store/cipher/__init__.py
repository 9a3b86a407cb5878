"""An encrypted database: `crypt` tells and opens it, `keys` knows where its key comes from,
`rewriting` gives a database another key, a first one, or none.
"""
