"""What kind of failure is it, and what is it attributed to? One letter tags the step.

Suggestions of rules and judges stand in a list, the chosen one with its evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.geometry import Size
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.widgets import Input, Static
from typing_extensions import override

from arc_tui.ui import format
from arc_tui.ui.bindings import bind, choice
from arc_tui.ui.format import fit, spread
from arc_tui.ui.keys import key_of
from arc_tui.ui.styles import KEY_CAP, StyledWidget
from arc_tui.views.evidence import finding_kind
from taxonomy.classes import CLASSES, SUB_LABELS, Attribution, ClassEntry, FailureClass, class_label
from taxonomy.findings import Evidence, Finding
from taxonomy.judgements.tags import TagRow

ORDER = (Attribution.AGENT, Attribution.USER, Attribution.ENVIRONMENT, Attribution.GRADER)

MEANING = {
    Attribution.AGENT: "an edit may fix it",
    Attribution.USER: "the user or the user simulator was at fault",
    Attribution.ENVIRONMENT: "serving, tools or the harness failed",
    Attribution.GRADER: "the grader requires what the task does not state",
}


class AttributionLine(StyledWidget):
    """The agent until a person turns to another; a suggestion keeps its own unless they do."""

    ALLOW_SELECT = False
    STYLES = {
        "key": KEY_CAP,
        "here": "bold",
        "quiet": "$quiet",
    }

    suggested: reactive[Attribution | None] = reactive(None)
    turned: reactive[Attribution | None] = reactive(None)

    @property
    def chosen(self) -> Attribution:
        """Of a class that a person names."""
        return self.turned or Attribution.AGENT

    @property
    def accepted(self) -> Attribution:
        """Of a suggestion that a person accepts."""
        return self.turned or self.suggested or Attribution.AGENT

    def turn(self) -> None:
        """To the next of the four."""
        self.turned = ORDER[(ORDER.index(self.chosen) + 1) % len(ORDER)]

    def render(self) -> Text:
        quiet = self.style_of("quiet")
        line = Text.assemble(
            (f" {key_of(self.screen, 'tag.fault')} ", self.style_of("key")), " attribution  "
        )
        for fault in ORDER:
            if fault is self.chosen:
                line.append(f"[{fault.value}]", self.style_of("here"))
            else:
                line.append(f" {fault.value} ", quiet)
        line.append(f"  {self._meaning()}", quiet)
        line.truncate(self.content_size.width, overflow="ellipsis")
        return line

    def _meaning(self) -> str:
        if self.accepted is not self.chosen:
            key = key_of(self.screen, "tag.accept")
            return f"{key} uses the suggested one: {self.accepted.value}"
        return MEANING[self.chosen]

    def on_click(self, _: events.Click) -> None:
        self.turn()


LOW = 30
"""Rows of a terminal below which less evidence is shown, and of many suggestions the nearest."""

NEAREST = 3

ROLE = 10


class SuggestionList(StyledWidget):
    """No line where nothing is suggested. The key that accepts stands before the one it would."""

    ALLOW_SELECT = False
    STYLES = {"key": "bold", "quiet": "$quiet"}

    place: reactive[int] = reactive(0, layout=True)

    def __init__(self, found: Sequence[Finding]) -> None:
        super().__init__()
        self._found = tuple(found)
        self.display = bool(found)

    @property
    def chosen(self) -> Finding | None:
        return self._found[self.place] if self._found else None

    def move(self, places: int) -> None:
        if self._found:
            self.place = (self.place + places) % len(self._found)

    def go_to(self, place: int) -> None:
        if place < len(self._found):
            self.place = place

    @override
    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(list(self._lines(width)))

    @property
    def _shown(self) -> range:
        """The places of those that are shown: where there is little room, those about the chosen
        one."""
        count = len(self._found)
        if self.app.size.height >= LOW or count <= NEAREST:
            return range(count)
        first = min(max(self.place - NEAREST // 2, 0), count - NEAREST)
        return range(first, first + NEAREST)

    @property
    def _most(self) -> int:
        """How many lines of evidence are shown, or one more."""
        if self.app.size.height >= LOW:
            return 4
        return 2 if len(self._found) <= NEAREST else 1

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> Iterator[Text]:
        key = self.style_of("key")
        quiet = self.style_of("quiet")
        several = len(self._found) > 1
        accept = key_of(self.screen, "tag.accept")
        for place in self._shown:
            found, here = self._found[place], place == self.place
            number = f"{place + 1} " if several and place < 9 else ""
            head = f"{accept if here else '':<7}{number}"
            line = Text.assemble((head, key), suggestion(found))
            line.truncate(width, overflow="ellipsis")
            yield line
            if here:
                said = evidence(found.evidence, self._most, width)
                yield from (Text(words, quiet) for words in said)
        if hidden := len(self._found) - len(self._shown):
            onward = key_of(self.screen, "tag.next")
            yield Text(f"{'':<7}… {hidden} more: {onward} next, a digit selects", quiet)

    def on_click(self, event: events.Click) -> None:
        """A line of a suggestion chooses it; one of evidence belongs to the chosen."""
        below = evidence(self._found[self.place].evidence, self._most, self.content_size.width)
        evidence_lines = sum(1 for _ in below)
        place = self._shown.start + event.y - self.gutter.top
        if place > self.place:
            place = max(place - evidence_lines, self.place)
        self.go_to(place)


def suggestion(found: Finding) -> str:
    """A suggestion on one line: class, who suggests it where that is no rule, reason, the
    attribution where it is not the agent."""
    by = "" if finding_kind(found) in ("rule", "check") else f" · {format.one_line(found.rule)}"
    name = format.one_line(class_label(found.failure, found.sub))
    outside = found.attribution not in (None, Attribution.AGENT)
    whose = f" · attribution: {found.attribution}" if outside else ""
    hint = " · hint, not counted" if found.is_hint else ""
    return f"{name}{by}: {format.one_line(found.why)}{whose}{hint}"


def evidence(found: Sequence[Evidence], most: int, width: int) -> Iterator[str]:
    """What it rests on, a line each, and how much more there is."""
    shown = found if len(found) <= most + 1 else found[:most]
    for each in shown:
        place = f"  {format.one_line(each.place)}" if each.place else ""
        role, text = format.one_line(each.role), format.one_line(each.text)
        yield fit(f"{'':<7}{role:<{ROLE}} {text}{place}", width).rstrip()
    if len(found) > len(shown):
        yield f"{'':<7}… {len(found) - len(shown)} more under Why"


INDENT = 24
"""Cells of the letter and the name of a class."""

LETTER = 4
"""Cells of the letter: in a narrow terminal, what stands below a class begins after it."""

WIDE = 96
"""Cells from which on signatures and fixes have room below the definition."""

TALL = 36
"""Rows of a terminal in which signatures and fixes have room together."""


class Choice(Struct, frozen=True, kw_only=True):
    """What a person said of a step."""

    failure: FailureClass
    sub: str | None = None
    attribution: Attribution | None = None
    note: str | None = None
    evidence: tuple[Evidence, ...] = ()


class CleanChoice(Struct, frozen=True, kw_only=True):
    """A person's choice for the run: there is no failure in it."""

    note: str | None = None


class ClassRow(StyledWidget):
    """A class with its letter, definition, signature and first fix, and who else says it here.

    A click chooses it. Where there is one line below the definition, it is the signature or the
    fix.
    """

    ALLOW_SELECT = False
    STYLES = {
        "key": KEY_CAP,
        "name": "bold",
        "quiet": "$quiet",
        "said": "$secondary",
    }

    signature: reactive[bool] = reactive(False)

    class Picked(Message):
        """The row was clicked."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, entry: ClassEntry, said: str = "") -> None:
        super().__init__()
        self._entry = entry
        self._said = said

    def render(self) -> Text:
        entry, room = self._entry, self.content_size.width - INDENT
        said = f"  {self._said}" if self._said else ""
        line = Text.assemble(
            (f" {key_of(self.screen, f'tag.{entry.key}')} ", self.style_of("key")),
            (f" {entry.name.value:<{INDENT - 4}}", self.style_of("name")),
            fit(entry.definition, room - len(said)),
            (said, self.style_of("said")),
        )
        indent = INDENT if self.content_size.width >= WIDE else LETTER
        for words in self._below():
            below = fit(words, self.content_size.width - indent)
            line.append(f"\n{' ' * indent}").append(below, self.style_of("quiet"))
        return line

    def _below(self) -> Sequence[str]:
        entry = self._entry
        if entry.fix == format.UNKNOWN:
            return ()
        signature, fix = f"sign: {entry.signature}", f"fix:  {entry.fix}"
        if self.app.size.height >= TALL:
            return signature, fix
        return (signature,) if self.signature else (fix,)

    @override
    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 1 + len(self._below())

    def on_click(self, _: events.Click) -> None:
        self.post_message(self.Picked(self._entry.key))


class CleanRow(StyledWidget):
    """The choice that the whole run is clean."""

    ALLOW_SELECT = False
    STYLES = {
        "key": KEY_CAP,
        "name": "bold",
    }

    class Picked(Message):
        """The row was clicked."""

    def render(self) -> Text:
        key = self.style_of("key")
        name = self.style_of("name")
        room = self.content_size.width - INDENT
        words = fit("the whole run has no visible failure", room)
        letter = key_of(self.screen, "tag.nothing")
        said = f" {'clean run':<{INDENT - 4}}"
        return Text.assemble((f" {letter} ", key), (said, name), words)

    def on_click(self, _: events.Click) -> None:
        self.post_message(self.Picked())


class TagPicker(ModalScreen[Choice | CleanChoice | None]):
    """The suggestions at this step, the classes by letter, the attribution, a note.

    No other judgement is shown where `suggested` and `tags` are empty, as in a blind pass.
    """

    CSS_PATH = "picker.tcss"
    HELP = "tag a step"

    BINDINGS = [
        *(
            Binding(entry.key, f"pick('{entry.key}')", entry.name.value, id=f"tag.{entry.key}",
                    show=False, tooltip=entry.definition)
            for entry in CLASSES
        ),
        bind("-", "clear", id="tag.nothing", show=False,
             tooltip="Mark the whole run as clean"),
        bind("W", "fault", id="tag.fault", show=False,
             tooltip="Change the attribution: agent, user, environment, grader"),
        bind("enter", "accept", id="tag.accept", show=False,
             tooltip="Tag the step with the selected suggestion, evidence included"),
        bind("j", "choose(1)", id="tag.next", show=False, tooltip="Select the next suggestion"),
        bind("k", "choose(-1)", id="tag.before", show=False,
             tooltip="Select the previous suggestion"),
        *(
            choice(place, f"choose_at({place - 1})", f"suggestion {place}",
                   id=f"tag.suggestion_{place}", tooltip=f"Select suggestion {place}")
            for place in range(1, 10)
        ),
        bind("v", "signs", id="tag.signs", show=False,
             tooltip="Show the signs of each class, or what to try first"),
        bind("tab", "note", id="tag.note", show=False,
             tooltip="Write a note to save with the tag, then choose a letter"),
        bind("esc", "leave", id="tag.leave", show=False, tooltip="Close without a tag"),
    ]  # fmt: skip

    AUTO_FOCUS = ""
    note = query_one("#note", Input)
    sub = query_one("#sub", Input)
    suggestions = query_one(SuggestionList)
    fault = query_one(AttributionLine)

    def __init__(
        self, step: int, suggested: Sequence[Finding] = (), tags: Iterable[TagRow] = ()
    ) -> None:
        super().__init__()
        self._step = step
        self._suggested = tuple(suggested)
        self._said = said_of(self._suggested, tags)

    def compose(self) -> ComposeResult:
        with Vertical(id="picker"):
            yield SuggestionList(self._suggested)
            for entry in CLASSES:
                yield ClassRow(entry, self._said.get(entry.name, ""))
            yield CleanRow()
            yield AttributionLine()
            note = key_of(self, "tag.note")
            yield Input(placeholder=f"note to save with the tag ({note}, then a letter)", id="note",
                        compact=True)  # fmt: skip
            yield Static(sub_labels(), id="labels", markup=False)
            yield Input(placeholder="a number or your own label, then enter", id="sub",
                        compact=True)  # fmt: skip

    def on_mount(self) -> None:
        box = self.query_one("#picker")
        box.border_title = f"tag step {self._step}"
        tall = self.app.size.height >= TALL
        self.set_class(tall, "-tall")
        if not tall:
            signs = key_of(self, "tag.signs")
            box.border_subtitle = Text(f"{signs}: signatures or fixes")
        self._show_fault()
        self._ask_sub(False)

    def _ask_sub(self, asking: bool) -> None:
        self.set_class(asking, "-sub")

    def _show_fault(self) -> None:
        """A suggestion brings its own until a person says another."""
        found = self.suggestions.chosen
        self.fault.suggested = found.attribution if found is not None else None

    def action_pick(self, key: str) -> None:
        entry = next(entry for entry in CLASSES if entry.key == key)
        if entry.name is FailureClass.OTHER:
            self._ask_sub(True)
            self.sub.focus()
        else:
            self.dismiss(Choice(failure=entry.name, attribution=self.fault.chosen, note=self._note))

    def action_clear(self) -> None:
        self.dismiss(CleanChoice(note=self._note))

    def action_fault(self) -> None:
        self.fault.turn()

    def action_choose(self, places: int) -> None:
        self.suggestions.move(places)
        self._show_fault()

    def action_choose_at(self, place: int) -> None:
        self.suggestions.go_to(place)
        self._show_fault()

    def action_signs(self) -> None:
        for row in self.query(ClassRow):
            row.signature = not row.signature

    def action_accept(self) -> None:
        found = self.suggestions.chosen
        if found is not None:
            self.dismiss(
                Choice(
                    failure=found.failure,
                    sub=found.sub,
                    attribution=self.fault.accepted,
                    note=self._note,
                    evidence=found.evidence,
                )
            )

    def action_note(self) -> None:
        self.note.focus()

    def action_leave(self) -> None:
        """Out of a line first, then out of the picker."""
        if self.focused is not None:
            self.set_focus(None)
            self._ask_sub(False)
        else:
            self.dismiss(None)

    @property
    def _note(self) -> str | None:
        return self.note.value.strip() or None

    def on_clean_row_picked(self, _: CleanRow.Picked) -> None:
        self.action_clear()

    def on_class_row_picked(self, event: ClassRow.Picked) -> None:
        self.action_pick(event.key)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input is self.note:
            self.set_focus(None)
        else:
            self.dismiss(
                Choice(
                    failure=FailureClass.OTHER,
                    sub=sub_label(event.value),
                    attribution=self.fault.chosen,
                    note=self._note,
                )
            )


def said_of(suggested: Iterable[Finding], tags: Iterable[TagRow]) -> dict[FailureClass, str]:
    """Who says which class of the step, people first: `ada, rule?`."""
    said: dict[FailureClass, dict[str, None]] = {}
    for tag in tags:
        said.setdefault(tag.failure, {})[format.one_line(tag.by)] = None
    for found in suggested:
        said.setdefault(found.failure, {})["suggested"] = None
    return {failure: ", ".join(names) for failure, names in said.items()}


def sub_label(typed: str) -> str | None:
    """A starter label by its number, else the words themselves; None for nothing."""
    words = typed.strip()
    if words.isdecimal() and 1 <= int(words) <= len(SUB_LABELS):
        return SUB_LABELS[int(words) - 1]
    return words or None


def sub_labels() -> Text:
    return Text("   ".join(f"{place} {label}" for place, label in enumerate(SUB_LABELS, 1)))


TAG, NONE, SKIP = "trace.tag", "queue.clear", "queue.walk"
UNDO, TURN, LEAVE = "trace.undo", "queue.blind", "trace.back"
"""The ids of the keys that go on."""

KEYS = (
    ((TAG, "tag"), (NONE, "clean run"), (SKIP, "skip"), (TURN, "{other}"), (LEAVE, "close")),
    ((TAG, "tag"), (NONE, "clean"), (SKIP, "skip"), (TURN, "{other}")),
)
GO_ON = (
    ((SKIP, "next"), (UNDO, "undo"), (TURN, "{other}"), (LEAVE, "close")),
    ((SKIP, "next"), (UNDO, "undo")),
)
"""The keys before a blind tag or without one, and after it; shorter for less room."""


class QueueLine(StyledWidget):
    """Place and reason; once a blind word was given, what others said beside it."""

    ALLOW_SELECT = False
    STYLES = {"place": "bold $primary", "quiet": "$quiet", "same": "$good", "other": "$warning"}

    place: reactive[str] = reactive("")
    blind: reactive[bool] = reactive(False)
    compared: reactive[tuple[str, ...]] = reactive((), layout=True)
    agreed: reactive[bool] = reactive(False)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport, width
        return 1 + len(self.compared)

    def render(self) -> Text:
        width = self.content_size.width
        place = Text(f" {self.place}", self.style_of("place"))
        lines = [
            spread(
                place, Text(self._keys(width - place.cell_len - 2), self.style_of("quiet")), width
            )
        ]
        for words in self.compared:
            line = Text(f" {words}", self.style_of("same" if self.agreed else "other"))
            line.truncate(width, overflow="ellipsis")
            lines.append(line)
        return Text("\n").join(lines)

    def _keys(self, room: int) -> str:
        """As much about the keys as has room."""
        other = "not blind" if self.blind else "blind"
        for hints in GO_ON if self.compared else KEYS:
            named = (f"{key_of(self.screen, name)} {words}" for name, words in hints)
            said = "  ".join(named).format(other=other) + " "
            if len(said) <= room:
                return said
        return ""
