"""What a person has set once for all: the file `config.toml`, decoded, checked, never written.

It lies in `ARC_CONFIG_DIR`, else in the platform's folder for settings. Without a file
everything is at its default. A section is a field of `Config`; what is not known there is an
error, because a misspelt key that is silently ignored looks like a setting that does not work.

A file to begin with holds all that may stand in it, as comments.
"""

from __future__ import annotations

import math
import os
import typing
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from replay.errors import ArcError, ModelRefused
from replay.models import protocol
from replay.models.servers import ModelConfig
from replay.providers import AZURE, BY_RESPONSES, PROVIDERS
from taxonomy import playbook as playbooks
from taxonomy.owners import BadOwner, Owners, owners_from
from taxonomy.playbook import Playbook

if TYPE_CHECKING:
    from replay.redact.rules import Policy


NAME = "config.toml"


class BadConfig(ArcError):
    """A file of settings that cannot be used; the message names the file and the key."""


class RedactConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is masked besides what the built-in rules find, before anything is stored.

    `patterns` are regular expressions by the name that their placeholders get, `keys` names of
    fields whose text is never kept, `allow` texts that are no secrets; `pii` adds what tells who
    somebody is (`replay.redact.personal`).
    """

    pii: bool = False
    patterns: dict[str, str] = {}
    keys: list[str] = []
    allow: list[str] = []


class RecordConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Caps of every run that `arc record` records, unless its options say otherwise; None is no
    cap."""

    max_steps: int | None = None
    max_tokens: int | None = None
    max_usd: float | None = None
    max_minutes: float | None = None


class AppConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the app looks when it opens; `arc_tui.settings` checks what stands here.

    `theme` "auto" is dark, and plain where a terminal has few colours. `columns` names a set of
    columns of the list of runs. Without `mouse` the terminal keeps it, to select text as ever.
    """

    theme: str = "auto"
    columns: str = "why"
    mouse: bool = True


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sections of the file.

    `owners` says whose a class of failure is (`taxonomy.owners` has the names that may stand
    there). `models` are tables by the name that a model is asked by. A section with keys of its own
    is a Struct that forbids unknown fields.
    `keys` are those of the app by the id of what they do; an id has a dot, and so is a table in a
    table to TOML unless it is quoted: `keymap` has them by their whole ids.
    """

    owners: dict[str, str] = {}
    redact: RedactConfig = RedactConfig()
    record: RecordConfig = RecordConfig()
    app: AppConfig = AppConfig()
    keys: dict[str, str | dict[str, str]] = {}
    models: dict[str, ModelConfig] = {}

    @property
    def keymap(self) -> dict[str, str]:
        """Keys, one or several with commas between them, by the id of what they do."""
        found: dict[str, str] = {}
        for name, given in self.keys.items():
            if isinstance(given, str):
                found[name] = given
            else:
                found |= {f"{name}.{rest}": keys for rest, keys in given.items()}
        return found


def config_file() -> Path:
    """Where the file is, or would be."""
    from platformdirs import user_config_path

    given = os.environ.get("ARC_CONFIG_DIR")
    folder = Path(given) if given else user_config_path("arc", appauthor=False)
    return folder / NAME


def read_config(file: Path | None = None) -> Config:
    """The settings in a file (the usual one unless given), the defaults where there is none.

    Raises BadConfig.
    """
    file = file or config_file()
    try:
        table = msgspec.toml.decode(file.read_bytes())
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise BadConfig(f"{file}: cannot be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadConfig(f"{file}: invalid TOML: {error}") from error
    for wrong in _unknown(table, Config, ""):
        raise BadConfig(f"{file}: {wrong}")
    try:
        found = msgspec.convert(table, Config)
    except msgspec.ValidationError as error:
        raise BadConfig(f"{file}: {error}") from error
    for wrong in _bad_models(found.models):
        raise BadConfig(f"{file}: [models.{wrong}")
    for name, cap in msgspec.structs.asdict(found.record).items():
        if cap is not None and not 0 < cap < math.inf:
            raise BadConfig(f"{file}: [record] {name}: {cap} is no number above 0")
    return found


def _bad_models(models: Mapping[str, ModelConfig]) -> Iterator[str]:
    """What is wrong with the configured models, after their names."""
    for name, said in models.items():
        known = [each for each in PROVIDERS if "responses" not in each]  # `api` says that
        if said.provider not in known:
            yield f"{name}] provider: '{said.provider}' is none of {', '.join(known)}"
        if said.api is not None and said.provider not in BY_RESPONSES:
            yield f"{name}] api: only the providers {' and '.join(BY_RESPONSES)} have several"
        if said.api_version is not None and said.provider != AZURE.name:
            yield f"{name}] api_version: only the provider {AZURE.name} has versions"
        if said.batches and said.provider != "openai":
            yield f"{name}] batches: only a server of the provider openai may be said to take them"
        if said.base_url is not None:
            try:
                protocol.address(said.base_url)
            except ModelRefused:
                yield f"{name}] base_url: not a server address, as http://localhost:11434/v1 is"
        rates = said.prices
        if rates is not None and any(
            rate is not None and not 0 <= rate < 1e6 for rate in msgspec.structs.astuple(rates)
        ):
            yield f"{name}.prices]: a price is USD of a million tokens, 0 or more"


def read_owners(file: Path | None = None, playbook: Playbook | None = None) -> Owners:
    """Whose a failure is, as the section `[owners]` and the playbook say (the usual one unless
    given). Raises BadConfig, BadPlaybook."""
    file = file or config_file()
    try:
        owners = owners_from(read_config(file).owners)
    except BadOwner as error:
        raise BadConfig(f"{file}: [owners] {error.message}", error.hint) from error
    return (find_playbook(file.parent) if playbook is None else playbook).owners(owners)


def find_playbook(folder: Path | None = None) -> Playbook:
    """The `playbook.toml` of the folder that arc was started in, else of that of the settings.

    Raises BadPlaybook.
    """
    for place in (Path(), folder or config_file().parent):
        if (place / playbooks.NAME).is_file():
            return playbooks.read_playbook(place / playbooks.NAME)
    return playbooks.NO_PLAYBOOK


def read_redaction(file: Path | None = None) -> Policy:
    """What a person adds to the rules for secrets, as the section `[redact]` says.

    Raises BadConfig, also where a pattern is none or may take for ever.
    """
    from replay.redact import rules as redact_rules
    from replay.redact.personal import PERSONAL
    from replay.redact.rules import BadPattern, Policy

    file = file or config_file()
    said = read_config(file).redact
    try:
        rules = redact_rules.rules(said.patterns)
    except BadPattern as error:
        raise BadConfig(f"{file}: [redact] patterns: {error.message}", error.hint) from error
    for name in said.keys:
        if not any(char.isascii() and char.isalpha() for char in name):
            raise BadConfig(f"{file}: [redact] keys: '{name}' has no letters")
    rules = (*rules, *PERSONAL) if said.pii else rules
    return Policy(rules=rules, keys=tuple(said.keys), allow=tuple(said.allow))


def _unknown(table: Mapping[str, object], shape: type[Struct], at: str) -> Iterator[str]:
    """A sentence for each key that a Struct does not know, and for those below its sections."""
    types = typing.get_type_hints(shape)
    known = {each.encode_name: types[each.name] for each in msgspec.structs.fields(shape)}
    for key, value in table.items():
        if key not in known:
            near = get_close_matches(key, known, n=1)
            meant = f", did you mean '{near[0]}'?" if near else ""
            yield f"unknown key '{at + key}'{meant} (known: {', '.join(at + k for k in known)})"
        elif isinstance(value, dict):
            yield from _unknown_below(value, known[key], f"{at}{key}.")


def _unknown_below(table: Mapping[str, object], hint: object, at: str) -> Iterator[str]:
    """The same below a key that holds a section, or tables that are sections by their names."""
    inner = next(filter(_is_section, (hint, *typing.get_args(hint))), None)
    if inner is None:
        return
    assert isinstance(inner, type)
    if typing.get_origin(hint) is not dict:
        yield from _unknown(table, inner, at)
        return
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _unknown(value, inner, f"{at}{name}.")


def _is_section(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, Struct)


TEMPLATE = """\
# The settings of arc. Lines that begin with # are comments; remove the # to use the example.
# `arc config` prints each setting and its origin. In the app, `,` shows them, and reads this
# file again after an edit.

[app]
# auto (dark; plain where the terminal has few colours), arc-dark, arc-light, arc-plain, or a
# theme of Textual: nord, gruvbox, dracula, solarized-light, …
# theme = "auto"

# The columns of the run list: why, figures, source.
# columns = "why"

# false leaves the mouse to the terminal, to select text as usual. Takes effect at the next start.
# mouse = true

[keys]
# An action, by its id, and its keys. `arc config keys` lists the ids.
# A character or a name: "t", "?", "ctrl+k", "f6", "space", "comma"; separate several with commas.
# trace.tag = "ctrl+k"
# app.settings = "comma,ctrl+l"

[owners]
# The owner of a failure: of a class, a class with its sub-label, or an attribution.
# bad_args = "tools team"
# "other / cap hit" = "ops"
# "attribution:environment" = "platform"

[redact]
# What is masked before anything is stored, in addition to the built-in rules.
# pii = false
# keys = ["badge no"]
# allow = ["EXAMPLE-7"]

[redact.patterns]
# badge = "E-[0-9]{6}"

[record]
# Caps of each run that `arc record` records: at a cap the next model call is refused.
# max_steps = 200
# max_tokens = 2_000_000
# max_usd = 5.00
# max_minutes = 60

[models]
# A model under a name of your own, for --model: who serves it, where, and what it costs.
# provider: openai (any server with OpenAI's API), azure, anthropic, bedrock, vertex. api: chat,
# responses. batches: does a server other than OpenAI's take them? api_version: Azure's.
# prices are USD of a million tokens; also cache_read, cache_write.
# local.provider = "openai"
# local.model = "qwen3:8b"
# local.base_url = "http://localhost:11434/v1"
# local.key_env = "LOCAL_KEY"
# local.prices = { input = 0.0, output = 0.0 }
"""


def make(file: Path) -> None:
    """Write the file, which must not be there yet. Raises ArcError."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as made:
            made.write(TEMPLATE)
    except FileExistsError as error:
        raise ArcError(f"{file} exists already", "Try: arc config --edit") from error
    except OSError as error:
        raise ArcError(f"{file}: cannot be created: {error.strerror}") from error
