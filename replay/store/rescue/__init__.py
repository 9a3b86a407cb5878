"""A damaged database: what can still be read of it, and a new one made of that.

`pages` reads a file without SQLite, `shapes` knows its tables, `salvage` gathers rows, `mending`
keeps those that belong together, `recover` writes them anew and says what is lost.
"""
