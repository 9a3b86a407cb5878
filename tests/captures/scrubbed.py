"""Nothing of the machine stays in a capture: paths, the host, the user, process ids.

Texts are replaced inside protobuf messages and JSON alike; everything else stays as it was posted.
"""

from __future__ import annotations

import getpass
import gzip
import re
import socket
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

DROPPED = re.compile(r"process\..*|host\..*|os\..*|thread\..*|service\.instance\.id")
"""Attributes that say where something ran and not what."""

TEMPORARY = re.compile(r"/tmp/[\w./-]+")
"""A file of one moment, whose name often holds a process id."""

COMMON = {"root", "user", "localhost", "vm"}
"""Names that say nothing of a machine or of who uses it."""


class Scrubber:
    """Replaces what a capture's texts say of this machine. `paths` are more to be replaced."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        library = sysconfig.get_paths()["stdlib"]
        own = {
            **paths,
            library: "/usr/lib/python3",
            sys.base_prefix: "/usr",
            str(Path(__file__).resolve().parents[2]): "/home/user/shop",
            str(Path.home()): "/home/user",
        }
        self._words = sorted(own.items(), key=lambda pair: -len(pair[0]))
        names = {socket.gethostname(), getpass.getuser()} - COMMON
        self._names = re.compile("|".join(rf"\b{re.escape(each)}\b" for each in names) or r"(?!)")

    def text(self, text: str) -> str:
        for word, instead in self._words:
            text = text.replace(word, instead)
        return TEMPORARY.sub("/tmp/it", self._names.sub("user", text))

    def file(self, name: str, body: bytes) -> bytes:
        """A file of a capture without them."""
        if name.endswith(".gz"):
            return gzip.compress(self.file(name[:-3], gzip.decompress(body)), mtime=0)
        if name.endswith(".pb"):
            kind = ExportLogsServiceRequest if "/logs" in name else ExportTraceServiceRequest
            message = kind.FromString(body)
            self._message(message)
            return message.SerializeToString(deterministic=True)
        return self.text(body.decode()).encode()

    def _message(self, message: Message) -> None:
        for field, value in message.ListFields():
            if field.name == "attributes":
                kept = [each for each in value if not DROPPED.fullmatch(each.key)]
                del value[:]
                value.extend(kept)
            if field.message_type is not None:
                for each in value if field.is_repeated else (value,):
                    self._message(each)
            elif field.type == field.TYPE_STRING:
                if field.is_repeated:
                    value[:] = [self.text(each) for each in value]
                else:
                    setattr(message, field.name, self.text(value))
