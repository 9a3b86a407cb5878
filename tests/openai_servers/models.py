"""The models the servers know, and what each takes: which effort, sampling, tools and limits."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct, structs

from tests.openai_servers.shape import Body, Refused, listed


class KnownModel(Struct, frozen=True, kw_only=True):
    """A model; limits are in tokens. `efforts` are empty for a model that does not reason.

    `samples` says whether sampling settings are taken: "always", "never", or "without effort",
    where the effort is none. `chat_tools` says the same of function tools in Chat Completions.
    `charges_writes` says whether what is written into the prompt cache has a price, `decides`
    whether any effort is taken without a word.
    """

    id: str
    context_tokens: int = 128_000
    most_output_tokens: int = 16_384
    efforts: tuple[str, ...] = ()
    default_effort: str = "none"
    samples: str = "always"
    chat: bool = True
    chat_tools: str = "always"
    verbosity: tuple[str, ...] = ("medium",)
    parallel: bool = True
    charges_writes: bool = False
    decides: bool = False
    created: int = 1_700_000_000

    @property
    def reasons(self) -> bool:
        return bool(self.efforts)

    @property
    def info(self) -> Body:
        """As the list of models shows it."""
        return {"id": self.id, "object": "model", "created": self.created, "owned_by": "openai"}

    def samples_at(self, effort: str | None) -> bool:
        """Are sampling settings taken with this effort? None is the default."""
        if self.samples == "without effort":
            return (effort or self.default_effort) == "none"
        return self.samples == "always"


_LARGE = KnownModel(
    id="", context_tokens=400_000, most_output_tokens=128_000, verbosity=("low", "medium", "high")
)

_FAMILIES: tuple[tuple[str, KnownModel], ...] = (
    (
        r"o\d.*",
        KnownModel(
            id="", context_tokens=200_000, most_output_tokens=100_000,
            efforts=("low", "medium", "high"), default_effort="medium", samples="never",
            parallel=False,
        ),
    ),
    (r"gpt-5(\.\d)?-chat.*", KnownModel(id="")),
    (
        r"gpt-5(-(mini|nano|pro|codex).*|-\d.*)?",
        structs.replace(
            _LARGE, efforts=("minimal", "low", "medium", "high"), default_effort="medium",
            samples="never",
        ),
    ),
    (
        r"gpt-5\.1-codex-max.*",
        structs.replace(
            _LARGE, efforts=("none", "low", "medium", "high", "xhigh"), samples="without effort"
        ),
    ),
    (
        r"gpt-5\.1.*",
        structs.replace(
            _LARGE, efforts=("none", "low", "medium", "high"), samples="without effort"
        ),
    ),
    (
        r"gpt-5\.[23].*",
        structs.replace(
            _LARGE, efforts=("none", "low", "medium", "high", "xhigh"), samples="without effort"
        ),
    ),
    (
        r"gpt-5\.4.*",
        structs.replace(
            _LARGE, efforts=("none", "low", "medium", "high", "xhigh"), samples="without effort",
            chat_tools="without effort",
        ),
    ),
    (
        r"gpt-(5\.[5-9]|[6-9]).*",
        structs.replace(
            _LARGE, efforts=("none", "low", "medium", "high", "xhigh", "max"),
            default_effort="medium", samples="without effort", chat_tools="without effort",
        ),
    ),
)  # fmt: skip


def family(id: str) -> KnownModel:
    """What a model of this name takes. A name of no family is a model that takes any effort, as
    other servers have them."""
    bare = id.removeprefix("ft:").partition(":")[0]
    for pattern, known in _FAMILIES:
        if re.fullmatch(pattern, bare):
            chat = re.search(r"-(pro|codex)\b", bare) is None
            charges = known is _FAMILIES[-1][1] and not bare.startswith("gpt-5.5")
            return structs.replace(known, id=id, chat=chat, charges_writes=charges)
    return KnownModel(id=id, decides=re.match(r"gpt-[34]|gpt-test|chatgpt-", bare) is None)


class Catalogue:
    """The models of one server; without a list, every name is a model."""

    def __init__(self, known: Iterable[KnownModel | str] | None) -> None:
        self._any = known is None
        models = [family(each) if isinstance(each, str) else each for each in known or ["gpt-test"]]
        self._known = {each.id: each for each in models}

    def find(self, id: str) -> KnownModel | Refused:
        found = self._known.get(id) or (family(id) if self._any else None)
        return found or Refused(
            f"The model `{id}` does not exist or you do not have access to it.",
            None,
            "model_not_found",
            404,
        )

    def page(self) -> Body:
        return {"object": "list", "data": [each.info for each in self._known.values()]}

    def one(self, id: str) -> Body | Refused:
        """A model of the list; a name that is no model is refused, also where all are served."""
        found = self._known.get(id)
        if found is not None:
            return found.info
        why = f"The model '{id}' does not exist"
        return Refused(why, "model", "model_not_found", 404)


def effort_refusal(model: KnownModel, effort: str | None, path: str) -> Refused | None:
    """Why a model does not take an effort, None where it does."""
    if effort is None or model.decides or effort in model.efforts:
        return None
    if not model.reasons and path == "reasoning_effort":
        return Refused(f"Unrecognized request argument supplied: {path}")
    if not model.reasons:
        return unsupported(path)
    return unsupported_value(path, effort, model.efforts)


def sampling_refusal(
    model: KnownModel, body: Body, effort: str | None, of: Iterable[str]
) -> Refused | None:
    """Why a model does not take sampling settings of a request, None where it does."""
    if model.samples_at(effort):
        return None
    for name in of:
        value = body.get(name)
        if value is None:
            continue
        default = _DEFAULTS.get(name)
        if model.samples == "never" and model.parallel and default is not None:
            if value != default:
                return default_only(name, value, default)
        elif value != default:
            return unsupported(name)
    return None


_DEFAULTS: dict[str, float] = {
    "temperature": 1, "top_p": 1, "presence_penalty": 0, "frequency_penalty": 0,
}  # fmt: skip


def unsupported(path: str, instead: str = "") -> Refused:
    why = f"Unsupported parameter: '{path}' is not supported with this model.{instead}"
    return Refused(why, path, "unsupported_parameter")


def default_only(path: str, value: object, default: object) -> Refused:
    why = (
        f"Unsupported value: '{path}' does not support {value} with this model. "
        f"Only the default ({default}) value is supported."
    )
    return Refused(why, path, "unsupported_value")


def unsupported_value(path: str, value: object, supported: Iterable[str]) -> Refused:
    why = (
        f"Unsupported value: '{path}' does not support '{value}' with this model. "
        f"Supported values are: {listed(supported)}."
    )
    return Refused(why, path, "unsupported_value")
