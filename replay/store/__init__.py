"""The database: plain SQLite with readable names, opened by `Store`.

`schema` owns the tables and their migrations, `write` puts traces in, `read` gets them out,
`answers` keeps what models replied, `check` re-derives every digest. Nothing outside this
package and `taxonomy.judgements` / `taxonomy.query` speaks SQL.
"""
