"""The database: plain SQLite with readable names, opened by `Store`.

`schema` owns the tables and their migrations, `write` puts traces in, `read` gets them out,
`answers` keeps what models replied. Nothing outside this package, its care (`replay.care`) and
`taxonomy.judgements` / `taxonomy.query` speaks SQL.
"""
