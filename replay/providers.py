"""Which API is a model asked by? A name is `[PROVIDER:]NAME`, split only at a known provider.

So `llama3:8b` and `ft:gpt-4o:acme` stay whole. A name without a provider belongs to the Messages
API; that is what `choose` makes of what a person wrote, so that everything below it (what is sent,
what an answer is stored under, what a result says was asked) follows from the name alone.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from replay.trace import Cost, Usage

WireName: TypeAlias = Literal["messages", "chat", "responses"]


class Provider(Struct, frozen=True, kw_only=True):
    """Who serves models, and by which API.

    `prices` is its name in the price table, None for that of the model's maker. `extra` is what
    has to be installed beside arc, None for nothing. `reasoning`: is what a model reasoned sent
    back to it as recorded, where its API takes that? `batches`: has its API batches, at its own
    server at least?
    """

    name: str
    title: str
    wire: WireName
    prices: str | None = None
    extra: str | None = None
    reasoning: bool = False
    batches: bool = False

    @property
    def is_azure(self) -> bool:
        """Is it OpenAI's models on Azure, which have endpoints, versions and deployments?"""
        return self.prices == "azure"

    @property
    def install(self) -> str:
        """How to get the package that it needs."""
        return f"Try: pip install 'arc-tui[{self.extra}]'"


ANTHROPIC = Provider(name="anthropic", title="Anthropic", wire="messages", batches=True)
OPENAI = Provider(
    name="openai", title="OpenAI", wire="chat", prices="openai", extra="openai", batches=True
)
RESPONSES = Provider(
    name="openai-responses",
    title="OpenAI",
    wire="responses",
    prices="openai",
    extra="openai",
    reasoning=True,
    batches=True,
)
UNSEALED = msgspec.structs.replace(RESPONSES, name="openai-responses-plain", reasoning=False)
"""The same for runs of another account, whose encrypted reasoning OpenAI refuses."""
AZURE = Provider(name="azure", title="Azure OpenAI", wire="chat", prices="azure", extra="openai")
AZURE_RESPONSES = Provider(
    name="azure-responses",
    title="Azure OpenAI",
    wire="responses",
    prices="azure",
    extra="openai",
    reasoning=True,
)
BEDROCK = Provider(
    name="bedrock", title="Amazon Bedrock", wire="messages", prices="aws", extra="bedrock"
)
VERTEX = Provider(
    name="vertex", title="Google Vertex AI", wire="messages", prices="google", extra="vertex"
)

PROVIDERS = {
    each.name: each
    for each in (
        ANTHROPIC, OPENAI, RESPONSES, UNSEALED, AZURE, AZURE_RESPONSES, BEDROCK, VERTEX,
    )
}  # fmt: skip

BY_RESPONSES = {OPENAI.name: RESPONSES, AZURE.name: AZURE_RESPONSES}
"""The same provider by its other API."""

_OPENAIS = re.compile(r"(?:gpt-(?!oss)|chatgpt-|o\d(?:$|-)|codex-|computer-use-)")
_REASONING = re.compile(r"(?:o\d(?:$|-)|gpt-(?:[5-9]|\d\d)(?!.*chat)|codex-)")

_FAMILIES: dict[str, str] = {
    "Claude": r"claude",
    "GPT": r"gpt|chatgpt|davinci|codex|o[1-9](?=$|-)",
    "Gemini": r"gemini|gemma|palm",
    "Llama": r"(?:meta-)?llama|codellama",
    "Mistral": r"mistral|mixtral|codestral|devstral|magistral|ministral",
    "Qwen": r"qwen|qwq",
    "DeepSeek": r"deepseek",
    "Grok": r"grok",
    "Command": r"command",
    "Kimi": r"kimi|moonshot",
    "GLM": r"glm|chatglm",
    "Nova": r"nova",
    "Phi": r"phi(?=[-\d])",
}
_PATTERNS = {name: re.compile(pattern) for name, pattern in _FAMILIES.items()}


def family(model: str) -> str | None:
    """The family a model's name belongs to, None where the name does not tell."""
    for part in re.split(r"[/:.]", model.lower()):
        for name, pattern in _PATTERNS.items():
            if pattern.match(part):
                return name
    return None


def split_name(model: str) -> tuple[Provider | None, str]:
    """The provider that a name begins with, None where it begins with none, and the rest."""
    provider, _, rest = model.partition(":")
    return (PROVIDERS[provider], rest) if rest and provider in PROVIDERS else (None, model)


def bare(model: str) -> str:
    """The name without its provider, as the server knows it."""
    return split_name(model)[1]


def wire_of(model: str) -> WireName:
    """The API by which a model of that name is asked."""
    provider, _ = split_name(model)
    return provider.wire if provider is not None else "messages"


def sends_reasoning(model: str) -> bool:
    """Is a model of that whole name sent what it reasoned as it was recorded?"""
    provider, _ = split_name(model)
    return provider is not None and provider.reasoning


def by_name(model: str) -> Provider | None:
    """Whose model it is, as far as its name tells."""
    name = model.rpartition("/")[2].lower()
    if "claude" in name:
        return ANTHROPIC
    return OPENAI if is_openais(name) else None


def is_openais(model: str) -> bool:
    """Is it one of OpenAI's own models, which only take what is published for them?"""
    name = bare(model).removeprefix("openai/").removeprefix("ft:").lower()
    return _OPENAIS.match(name) is not None


def reasons(model: str) -> bool:
    """Is it one of OpenAI's models that reason, and so take no sampling settings?"""
    name = bare(model).removeprefix("openai/").removeprefix("ft:").lower()
    return _REASONING.match(name) is not None


def is_o_series(model: str) -> bool:
    """Is it one of OpenAI's first models that reason, which call one tool after another?"""
    return re.match(r"o\d(?:$|-)", bare(model).removeprefix("openai/").lower()) is not None


EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The words of all APIs for how hard a model tries, the least first."""

_MESSAGES_EFFORTS = EFFORTS[2:]
_QUIET = re.compile(r"gpt-[34]|chatgpt-|gpt-5(\.\d+)?-chat")
_KNOWN_EFFORTS = (
    (re.compile(r"o\d(?:$|-)"), EFFORTS[2:5]),
    (re.compile(r"gpt-5(?:$|-)"), EFFORTS[1:5]),
    (re.compile(r"gpt-5\.1-codex-max"), ("none", *EFFORTS[2:6])),
    (re.compile(r"gpt-5\.1"), ("none", *EFFORTS[2:5])),
    (re.compile(r"gpt-5\.[234]"), ("none", *EFFORTS[2:6])),
)
"""What is published of OpenAI's models. A model that is not here decides for itself."""


def efforts(model: str) -> tuple[str, ...]:
    """The words for its effort that a model of that whole name takes, as far as they are known:
    those of its API where nothing is known of the model, () for one that is known to take none."""
    if wire_of(model) == "messages":
        return _MESSAGES_EFFORTS
    name = bare(model).removeprefix("openai/").removeprefix("ft:").lower()
    if _QUIET.match(name):
        return ()
    return next((words for pattern, words in _KNOWN_EFFORTS if pattern.match(name)), EFFORTS)


_MILLION = 1_000_000


class Rates(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Prices that a person configured: USD of a million tokens. None is the price of all input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None

    def price(self, usage: Usage | None) -> Cost | None:
        """The price of one call, None where tokens in or out are unknown."""
        if usage is None or usage.input_tokens is None or usage.output_tokens is None:
            return None
        read, write = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
        parts = (
            (usage.input_tokens - read - write, self.input),
            (read, self.input if self.cache_read is None else self.cache_read),
            (write, self.input if self.cache_write is None else self.cache_write),
            (usage.output_tokens, self.output),
        )
        usd = sum(tokens * rate for tokens, rate in parts) / _MILLION
        return Cost(usd=usd, source="priced", prices="config.toml") if usd >= 0 else None
