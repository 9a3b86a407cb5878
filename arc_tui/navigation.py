"""Into the tagging queue, from any screen that has runs to tag."""

from __future__ import annotations

from textual.message import Message

from arc_tui.places import author
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.queue import Visit, nothing_waits
from taxonomy.queue import Queue, queue


class Queueing(ArcScreen):
    """Opens the queue. The action of a screen that has runs to tag."""

    class QueueRead(Message):
        """What waits was read."""

        def __init__(self, queue: Queue) -> None:
            super().__init__()
            self.queue = queue

    class Entered(Message):
        """A queue is to be walked from its first run."""

        def __init__(self, visit: Visit) -> None:
            super().__init__()
            self.visit = visit

    def action_queue(self, blind: bool) -> None:
        by = author()
        reading = self.ask(
            lambda store: queue(store, by, blind=blind), self.QueueRead, group="queue"
        )
        self.hold_keys(reading)

    def on_queueing_queue_read(self, event: QueueRead) -> None:
        if event.queue.waiting:
            self.enter(Visit(queue=event.queue))
        else:
            seen = self.key_of("runs.queue") or self.key_of("queue.walk")
            blind = self.key_of("runs.blind") or self.key_of("queue.blind")
            self.say(nothing_waits(event.queue, seen=seen, blind=blind))

    def enter(self, visit: Visit) -> None:
        self.post_message(self.Entered(visit))
