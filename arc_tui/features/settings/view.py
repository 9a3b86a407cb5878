"""What a person has set, what holds where they have not, and where each value comes from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from arc_tui.config import BadConfig, Config, config_file, read_config
from arc_tui.places import author, data_folder, database
from replay.errors import ModelRefused
from replay.models import protocol
from replay.models.servers import OPENAI_URL, azure_url, openai_url, resolve

Origin = Literal["default", "file", "environment", "session"]

SET, NOT_SET = "set", "not set"
"""All that is said of a value that nobody may see."""


class Setting(Struct, frozen=True, kw_only=True):
    """A setting with its value as text, and what it is for."""

    name: str
    value: str
    origin: Origin
    means: str


class SettingsView(Struct, frozen=True, eq=False, kw_only=True):
    """The file, whether it is there, and every setting; `trouble` is why the file is not used, in
    which case the defaults stand here."""

    file: str
    exists: bool
    settings: tuple[Setting, ...]
    trouble: str | None = None


EMPTY = SettingsView(file="", exists=False, settings=())


def build_settings(file: Path | None = None, theme: str | None = None) -> SettingsView:
    """Every setting of a file (the usual one unless given) and of the environment.

    `theme` is one that was chosen in the app, for as long as it is open. Whether ids, themes and
    columns exist is for `arc_tui.settings` to say.
    """
    file = file or config_file()
    trouble = None
    said: dict[str, dict[str, object]] = {}
    try:
        config = read_config(file)
        if file.exists():
            said = msgspec.toml.decode(file.read_bytes())
    except BadConfig as error:
        config, trouble = Config(), error.message
    return SettingsView(
        file=str(file),
        exists=file.exists(),
        settings=(*_in_file(config, said, theme), *_around()),
        trouble=trouble,
    )


APP = {
    "theme": "the colours of the app",
    "columns": "the columns of the run list when it opens",
    "mouse": "mouse support in the app; false leaves the mouse to the terminal",
}
RECORD = {
    "max_steps": "model calls that a recorded run may make",
    "max_tokens": "tokens that a recorded run may use",
    "max_usd": "USD that a recorded run may cost",
    "max_minutes": "minutes that a recorded run may take",
}
REDACT = {
    "pii": "mask personal data too",
    "keys": "fields whose text is never stored",
    "allow": "texts that are not secrets",
}


def _in_file(
    config: Config, said: Mapping[str, Mapping[str, object]], theme: str | None
) -> Iterator[Setting]:
    for name, means in APP.items():
        value = getattr(config.app, name)
        origin: Origin = "file" if name in said.get("app", {}) else "default"
        if name == "theme" and theme is not None:
            value, origin = theme, "session"
        yield Setting(name=f"app.{name}", value=_text(value), origin=origin, means=means)
    for name, keys in config.keymap.items():
        means = "key binding"
        yield Setting(name=f"keys.{name}", value=keys, origin="file", means=means)
    for name, owner in config.owners.items():
        yield Setting(
            name=f"owners.{name}", value=owner, origin="file", means="owner of the failure class"
        )
    for name, means in REDACT.items():
        value = getattr(config.redact, name)
        origin = "file" if name in said.get("redact", {}) else "default"
        yield Setting(name=f"redact.{name}", value=_text(value), origin=origin, means=means)
    for name, means in RECORD.items():
        value = getattr(config.record, name)
        origin = "file" if name in said.get("record", {}) else "default"
        shown = _text(value) if value is not None else "none"
        yield Setting(name=f"record.{name}", value=shown, origin=origin, means=means)
    for name, pattern in config.redact.patterns.items():
        means = "matches are masked"
        yield Setting(name=f"redact.patterns.{name}", value=pattern, origin="file", means=means)
    for name in config.models:
        target = resolve(name, config.models)
        value = f"{target.model} at {target.address}"
        yield Setting(name=f"models.{name}", value=value, origin="file", means="a model's server")


def _text(value: object) -> str:
    """As it would stand in the file."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _around() -> Iterator[Setting]:
    """What the environment says, and what holds where it does not."""
    for variable, value, means in (
        ("ARC_DB", str(database(None)), "the database; --db names another"),
        ("ARC_DATA_DIR", str(data_folder()), "folder of the databases"),
        ("ARC_CONFIG_DIR", str(config_file().parent), "folder of the settings file"),
        ("ARC_USER", author(), "author of tags and labels"),
        ("VISUAL", "", "the editor; takes precedence over EDITOR"),
        ("EDITOR", "vi", "the editor"),
        ("NO_COLOR", "", "any value turns colours off"),
        ("ARC_KILL", "", "a file; while it exists, no model is called"),
        ("OPENAI_API_VERSION", "", "the version of Azure OpenAI's API"),
    ):
        yield _variable(variable, os.environ.get(variable), value, means)
    for variable, url, official, means in (
        (protocol.SERVER_VARIABLE, protocol.server_url, protocol.OFFICIAL, "the model server"),
        (protocol.OPENAI_VARIABLE, openai_url, OPENAI_URL, "a server with OpenAI's APIs"),
        (protocol.AZURE_VARIABLE, azure_url, NOT_SET, "a resource of Azure OpenAI"),
    ):
        named = _server(url) if os.environ.get(variable) else None
        yield _variable(variable, named, official, f"address of {means}")
    for variable, means in (
        ("ANTHROPIC_API_KEY", "API key of the model server"),
        ("OPENAI_API_KEY", "API key for models of OpenAI's APIs"),
        ("AZURE_OPENAI_API_KEY", "API key of Azure OpenAI"),
        ("AZURE_OPENAI_AD_TOKEN", "token for Azure OpenAI, instead of a key"),
        ("ARC_REDACT_KEY", "key for the placeholders of masked secrets"),
        ("ARC_DB_KEY", "the key of an encrypted database"),
        ("ARC_DB_KEY_FILE", "a file that contains ARC_DB_KEY"),
    ):
        yield _variable(variable, SET if os.environ.get(variable) else None, NOT_SET, means)


def _server(url: Callable[[], str | None]) -> str:
    """The address without the password that may stand in it, or why it is none."""
    try:
        return protocol.address(url() or "")
    except ModelRefused as error:
        return error.message


def _variable(name: str, given: str | None, default: str, means: str) -> Setting:
    if given is None:
        return Setting(name=name, value=default or NOT_SET, origin="default", means=means)
    return Setting(name=name, value=given or SET, origin="environment", means=means)
