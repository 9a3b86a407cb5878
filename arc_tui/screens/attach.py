"""Files put beside a trace, from a screen."""

from __future__ import annotations

from arc_tui.jobs.attaching import attach_to, supplement
from arc_tui.widgets.attach_box import Attachment
from replay.errors import BadEdit
from replay.store import Store


def attach(store: Store, trace: str, given: Attachment) -> str:
    """Put it beside the trace and say what the trace has now. Raises BadEdit and BadTrace."""
    try:
        made = supplement(store, given.system, given.tools, None)
    except OSError as error:
        raise BadEdit(f"{error.filename}: cannot be read: {error.strerror}") from error
    attached = [what for _, what in attach_to(store, trace, made, given.sketched) if what]
    return ", ".join(attached) or "nothing: the source recorded it"
