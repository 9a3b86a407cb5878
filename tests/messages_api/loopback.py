"""What every loopback server of a model's API is: what it received, its faults, its life."""

from __future__ import annotations

import re
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from tests.messages_api.faults import Fault
from tests.messages_api.flights import Flights
from tests.messages_api.handler import Received, Reply, Server


class Loopback(ABC):
    """A server, a context manager. `received` holds every request in order, refused ones too.

    `answers` is a pattern of the paths where a model is asked: these are counted and flown.
    """

    answers: str

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.left = threading.Event()
        self.flights = Flights()
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._server = Server(self)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.left.set()
        self.flights.release()
        self._server.shutdown()
        self._server.server_close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def asked(self) -> int:
        """How often a model was asked, items of batches not counted."""
        with self._lock:
            return sum(self._is_asked(each) for each in self.received)

    @property
    def most_at_once(self) -> int:
        """The most questions to a model that were in flight at the same time."""
        return self.flights.most_at_once

    def fault(self, *faults: Fault) -> None:
        """Script what goes wrong with the next requests, one fault each."""
        with self._lock:
            self._faults.extend(faults)

    def reply(self, received: Received) -> Reply:
        """What goes out for a request."""
        fault = self._next_fault(received)
        if not self._is_asked(received):
            return self._reply(received, fault)
        with self.flights.flight():
            return self._reply(received, fault)

    @abstractmethod
    def _reply(self, received: Received, fault: Fault | None) -> Reply: ...

    def _is_asked(self, received: Received) -> bool:
        return re.fullmatch(self.answers, received.path) is not None

    def _next_fault(self, received: Received) -> Fault | None:
        with self._lock:
            self.received.append(received)
            found = next((each for each in self._faults if each.befalls(received.path)), None)
            if found is not None:
                self._faults.remove(found)
            return found
