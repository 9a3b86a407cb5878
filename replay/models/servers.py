"""Where is a model asked, and is there a key for it? `[PROVIDER:]NAME`, or a name of `[models]`.

A name without a provider is, in this order: one that a person configured; the demo model; one that
its maker's API serves (`claude-…`, `gpt-…`); one of whatever server ANTHROPIC_BASE_URL or
OPENAI_BASE_URL names. Else nobody is asked: a guess would send a run's texts to a stranger.

`""` is the server of a provider's official API: answers of it are kept under no address.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from replay.errors import ModelRefused
from replay.models import protocol
from replay.models.protocol import AZURE_VARIABLE, OPENAI_VARIABLE, Target, url_variable
from replay.providers import (
    ANTHROPIC,
    BY_RESPONSES,
    OPENAI,
    PROVIDERS,
    Provider,
    Rates,
    by_name,
    split_name,
)

if TYPE_CHECKING:
    from replay.models.wire import Wire

DEMO = "demo"

OPENAI_URL = "https://api.openai.com/v1"


class ModelConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model as a person configured it, under the name they ask it by.

    `model` is its name at the server, None for that same name. `key_env` names the variable with
    the key. `prices` are USD of a million tokens.
    """

    provider: str = OPENAI.name
    model: str | None = None
    base_url: str | None = None
    key_env: str | None = None
    api: Literal["chat", "responses"] | None = None
    prices: Rates | None = None
    batches: bool = False
    api_version: str | None = None


_UNCONFIGURED = ModelConfig()

Models = Mapping[str, ModelConfig]
NONE: Models = {}


def resolve(name: str, models: Models = NONE, *, live: bool = True) -> Target:
    """Whom a name means. Raises ModelRefused where it cannot be told who serves it: only live
    calls have to know, and stored answers are those of the Messages API."""
    if name in models:
        return _target_of_config(name, models[name])
    provider, rest = split_name(name)
    if provider is not None:
        return _target(provider, rest)
    maker = by_name(name)
    if maker is ANTHROPIC or name == DEMO:
        return _target(ANTHROPIC, name)
    elsewhere = _is_set(protocol.SERVER_VARIABLE) and protocol.name(protocol.server_url()) != ""
    if maker is OPENAI and (not elsewhere or _is_set(OPENAI_VARIABLE, "OPENAI_API_KEY")):
        return _target(OPENAI, name)
    if elsewhere or not live:
        return _target(ANTHROPIC, name)
    if _is_set(OPENAI_VARIABLE):
        return _target(OPENAI, name)
    raise ModelRefused(
        f"no server known for '{name}'",
        f"Try: the name openai:{name}, and {OPENAI_VARIABLE} set to its server; or a section"
        " [models.NAME] in the settings",
    )


def _is_set(*variables: str) -> bool:
    return any(os.environ.get(each) for each in variables)


def _target_of_config(name: str, said: ModelConfig) -> Target:
    provider = PROVIDERS[said.provider]
    if said.api == "responses":
        provider = BY_RESPONSES.get(provider.name, provider)
    return _target(provider, said.model or name, said)


def _target(provider: Provider, name: str, said: ModelConfig = _UNCONFIGURED) -> Target:
    url = said.base_url
    if provider is ANTHROPIC:
        name, url = name.removeprefix("anthropic/"), protocol.server_url(url)
        server = protocol.name(url)
    elif provider.is_azure:
        url = azure_url(url)
        server = protocol.address(url) if url else provider.name
    elif provider.extra == OPENAI.extra:
        url = openai_url(url)
        official = protocol.address(url) == OPENAI_URL
        name = name.removeprefix("openai/") if official else name
        server = "" if official else protocol.address(url)
    else:
        url = url or os.environ.get(url_variable(provider))
        server = protocol.address(url) if url else provider.name
    model = name if provider is ANTHROPIC else f"{provider.name}:{name}"
    return Target(
        model=model,
        provider=provider,
        url=url,
        server=server,
        key_env=said.key_env,
        prices=said.prices,
        batches=provider is ANTHROPIC or said.batches or (provider.batches and not server),
        api_version=said.api_version if provider.is_azure else None,
    )


def openai_url(given: str | None = None) -> str:
    """Where OpenAI's APIs are asked: what is given, else what the environment names, else OpenAI.

    Raises ModelRefused where that is no address of a server.
    """
    url = given or os.environ.get(OPENAI_VARIABLE) or OPENAI_URL
    try:
        protocol.address(url)
    except ModelRefused as error:
        raise ModelRefused(
            f"{OPENAI_VARIABLE} is not a server address",
            "Try: an address like http://localhost:11434/v1",
        ) from error
    return url.rstrip("/")


def azure_url(given: str | None = None) -> str | None:
    """The endpoint of an Azure resource: what is given, else what the environment names; None where
    nothing does.

    Raises ModelRefused where that is no address of one.
    """
    url = given or os.environ.get(AZURE_VARIABLE)
    if not url:
        return None
    bare = url.rstrip("/").removesuffix("/openai")
    if bare.endswith("/v1"):
        raise ModelRefused(
            f"{AZURE_VARIABLE} is an address of Azure's v1 API, which is asked as OpenAI's",
            f"Try: {OPENAI_VARIABLE} set to it, and --model openai:DEPLOYMENT",
        )
    try:
        protocol.address(bare)
    except ModelRefused as error:
        raise ModelRefused(
            f"{AZURE_VARIABLE} is not a server address",
            "Try: an address like https://NAME.openai.azure.com",
        ) from error
    return bare


def wire_of(target: Target) -> Wire:
    """The API by which a target is asked."""
    if target.provider.extra == OPENAI.extra:
        from replay.models import openai

        found = openai.CHAT if target.provider.wire == "chat" else openai.RESPONSES
        if target.provider.is_azure:
            found = openai.azure(found, target.name, target.api_version)
        return found if target.key_env is None else found._replace(key_variable=target.key_env)
    from replay.models import messages

    if target.provider is ANTHROPIC:
        return messages.MESSAGES._replace(key_variable=target.key_env)
    return messages.PLATFORMS[target.provider.name]


def require_key(target: Target) -> None:
    """Raises ModelRefused where calls would have no key, or the package for them is lacking. Calls
    nobody."""
    if target.provider.extra == OPENAI.extra:
        from replay.models import openai

        found = wire_of(target)
        assert isinstance(found, openai.OpenAI)
        openai.require_key(target.url or "", found)
        return
    from replay.models import messages

    if target.provider is ANTHROPIC:
        messages.require_key(target.url or protocol.server_url(), target.key_env)
    else:
        messages.PLATFORMS[target.provider.name].require()


def lacks_key(target: Target) -> str | None:
    """The sentence where it is plain, without importing a package, that there is no key."""
    if target.model == DEMO:
        return None
    if target.provider is ANTHROPIC:
        from replay.models import messages

        keyless = messages.is_keyless(target.url or protocol.server_url(), target.key_env)
        return f"{messages.NO_KEY}. {messages.KEY_HINT}" if keyless else None
    try:
        require_key(target)
    except ModelRefused as error:
        return str(error)
    return None
