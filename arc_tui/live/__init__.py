"""What is received while it happens: a server on loopback and the traces that grow behind it."""

LOOPBACK, PORT = "127.0.0.1", 4318
"""The one address that is listened on, and where OTLP over HTTP is expected unless told."""
