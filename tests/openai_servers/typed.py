"""A second opinion on requests: the types of the `openai` SDK, which say nothing of the rules.

`departure(value, hint)` walks a value along the SDK's typed parameters and says the first thing
that a type checker would have refused.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Union, get_args, get_origin

import typing_extensions


def chat_departure(body: dict[str, Any]) -> str | None:
    """How a body departs from what `chat.completions.create` takes, None where not at all."""
    from openai.types.chat.completion_create_params import CompletionCreateParams

    return departure(body, CompletionCreateParams)


def response_departure(body: dict[str, Any]) -> str | None:
    """The same for `responses.create`."""
    from openai.types.responses.response_create_params import ResponseCreateParams

    return departure(body, ResponseCreateParams)


def departure(value: Any, hint: Any, path: str = "") -> str | None:
    origin, inner = get_origin(hint), get_args(hint)
    if hint in {Any, object}:
        return None
    if hint is type(None) or hint is None:
        return None if value is None else f"{path}: not null"
    if origin is typing.Literal or origin is typing_extensions.Literal:
        return None if value in inner else f"{path}: {value!r} is none of {inner}"
    if origin is Union or str(origin) == "<class 'types.UnionType'>":
        return _of_all(value, inner, path)
    if origin in {typing_extensions.Required, typing_extensions.NotRequired, typing.Annotated}:
        return departure(value, inner[0], path)
    if typing_extensions.is_typeddict(hint):
        return _of_dict(value, hint, path)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _of_mapping(value, inner, path)
    if isinstance(origin, type) and (
        issubclass(origin, Iterable) or origin.__name__ == "SequenceNotStr"
    ):
        if not isinstance(value, list):
            return f"{path}: no list"
        found = (departure(each, inner[0], f"{path}[{at}]") for at, each in enumerate(value))
        return next(filter(None, found), None)
    if hint is float:
        return None if type(value) in {int, float} else f"{path}: no number"
    if isinstance(hint, type):
        return None if type(value) is hint else f"{path}: no {hint.__name__}"
    raise TypeError(f"a kind of type that is not known here: {hint!r}")


def _of_all(value: Any, hints: tuple[Any, ...], path: str) -> str | None:
    """None where one of the types fits; else what the deepest of them says."""
    said = []
    for each in hints:
        found = departure(value, each, path)
        if found is None:
            return None
        said.append(found)
    return max(said, key=lambda text: len(text.partition(":")[0]))


def _of_mapping(value: Any, inner: tuple[Any, ...], path: str) -> str | None:
    if not isinstance(value, dict):
        return f"{path}: no object"
    found = (departure(each, inner[1], f"{path}.{name}") for name, each in value.items())
    return next(filter(None, found), None)


def _of_dict(value: Any, hint: Any, path: str) -> str | None:
    if not isinstance(value, dict):
        return f"{path}: no object"
    fields, needed = _fields(hint)
    for name in needed - set(value):
        return f"{path}.{name}: missing"
    for name, each in value.items():
        if name not in fields:
            return f"{path}.{name}: not known"
        found = departure(each, fields[name], f"{path}.{name}")
        if found is not None:
            return found
    return None


@cache
def _fields(hint: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """The fields of a TypedDict and those it needs, which its own `__required_keys__` does not
    know: its annotations are postponed."""
    fields = typing_extensions.get_type_hints(hint, include_extras=True)
    needs: Any = typing_extensions.Required
    return fields, frozenset(n for n, each in fields.items() if get_origin(each) is needs)
