"""The part of JSON Schema that functions and structured outputs may use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

MOST_DEPTH = 10
MOST_PROPERTIES = 5_000
MOST_CHARACTERS = 120_000
"""Of all names, definitions, enum values and constants together."""
MOST_ENUM_VALUES = 1_000
LARGE_ENUM = 250
MOST_LARGE_ENUM_CHARACTERS = 15_000

_NOT_PERMITTED = (
    "allOf", "oneOf", "not", "dependentRequired", "dependentSchemas", "if", "then", "else",
    "patternProperties", "propertyNames", "minProperties", "maxProperties", "unevaluatedItems",
    "unevaluatedProperties", "contains", "minContains", "maxContains", "uniqueItems", "default",
)  # fmt: skip
_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())
_TYPES = frozenset("string number boolean integer object array null".split())

Where = tuple[str, ...]


def function_flaw(schema: Any, *, strict: bool) -> str | None:
    """Why parameters of a function are refused, None where they are not."""
    return next(_root_flaws(schema, strict=strict, function=True), None)


def output_flaw(schema: Any, *, strict: bool) -> str | None:
    """Why the schema of an output is refused, None where it is not."""
    return next(_root_flaws(schema, strict=strict, function=False), None)


def _root_flaws(schema: Any, *, strict: bool, function: bool) -> Iterator[str]:
    kind = schema.get("type")
    if kind != "object":
        got = "None" if kind is None else kind
        yield f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{got}\"'."
        return
    if strict and "anyOf" in schema:
        yield f"{_in(())} 'anyOf' is not permitted."
    if strict:
        yield from _strict_flaws(schema, (), schema)
        yield from _size_flaws(schema)
    else:
        yield from _loose_flaws(schema, ())
    if function and "properties" not in schema:
        yield f"{_in(())} object schema missing properties."


def _loose_flaws(schema: Any, where: Where) -> Iterator[str]:
    """What is looked at even where nothing is held to the schema."""
    if not isinstance(schema, dict):
        return
    yield from _type_flaws(schema, where)
    for place, each in _inside(schema):
        yield from _loose_flaws(each, (*where, *place))


def _type_flaws(schema: dict[str, Any], where: Where) -> Iterator[str]:
    kinds = schema.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind is not None and kind not in _TYPES:
            yield f"{_in(where)} '{kind}' is not valid under any of the given schemas."
    if kinds == "array" and "items" not in schema:
        yield f"{_in(where)} array schema missing items."


def _strict_flaws(schema: Any, where: Where, root: dict[str, Any]) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield f"{_in(where)} schema must be an object."
        return
    yield from (
        f"{_in(where)} '{name}' is not permitted." for name in schema if name in _NOT_PERMITTED
    )
    if "$ref" in schema:
        if not _resolves(schema["$ref"], root):
            yield f"{_in(where)} reference '{schema['$ref']}' does not resolve."
        if set(schema) - {"$ref"}:
            others = ", ".join(f"'{each}'" for each in sorted(set(schema) - {"$ref"}))
            yield f"{_in(where)} $ref cannot have keywords {{{others}}}."
        return
    if not {"type", "anyOf", "enum", "const"} & set(schema):
        yield f"{_in(where)} schema must have a 'type' key."
    if "object" in _kinds(schema):
        yield from _object_flaws(schema, where)
    if schema.get("format") not in {None, *_FORMATS}:
        yield f"{_in(where)} '{schema['format']}' is not a supported format."
    yield from _type_flaws(schema, where)
    for place, each in _inside(schema):
        yield from _strict_flaws(each, (*where, *place), root)


def _object_flaws(schema: dict[str, Any], where: Where) -> Iterator[str]:
    if schema.get("additionalProperties") is not False:
        yield f"{_in(where)} 'additionalProperties' is required to be supplied and to be false."
    properties, required = schema.get("properties", {}), schema.get("required")
    every = "'required' is required to be supplied and to be an array including every key in "
    every += "properties."
    if properties and not isinstance(required, list):
        yield f"{_in(where)} {every}"
    for name in properties:
        if name not in (required or []):
            yield f"{_in(where)} {every} Missing '{name}'."
    for name in required or []:
        if name not in properties:
            yield f"{_in(where)} {every} Extra required key '{name}' supplied."


def _size_flaws(schema: dict[str, Any]) -> Iterator[str]:
    depth = _depth(schema)
    if depth > MOST_DEPTH:
        yield f"{depth} levels of nesting exceeds limit of {MOST_DEPTH}."
    every = [each for _, each in _walk(schema, ())]
    names = [name for each in every for name in each.get("properties", {})]
    if len(names) > MOST_PROPERTIES:
        yield f"{len(names)} object properties exceeds limit of {MOST_PROPERTIES}."
    enums = [[str(value) for value in each["enum"]] for each in every if "enum" in each]
    values = sum(map(len, enums))
    if values > MOST_ENUM_VALUES:
        yield f"{values} enum values exceeds limit of {MOST_ENUM_VALUES}."
    for each in enums:
        length = sum(map(len, each))
        if len(each) > LARGE_ENUM and length > MOST_LARGE_ENUM_CHARACTERS:
            yield (
                f"enum with {len(each)} values has a total string length of {length}, "
                f"which exceeds limit of {MOST_LARGE_ENUM_CHARACTERS}."
            )
    texts = [*names, *(name for each in every for name in each.get("$defs", {}))]
    texts += [value for each in enums for value in each]
    texts += [json.dumps(each["const"]) for each in every if "const" in each]
    if sum(map(len, texts)) > MOST_CHARACTERS:
        yield f"total string length {sum(map(len, texts))} exceeds limit of {MOST_CHARACTERS}."


def _inside(schema: dict[str, Any]) -> Iterator[tuple[Where, Any]]:
    """The schemas in a schema, and where they stand."""
    for field in ("properties", "$defs", "definitions"):
        if isinstance(schema.get(field), dict):
            yield from (((field, name), each) for name, each in schema[field].items())
    if isinstance(schema.get("anyOf"), list):
        yield from ((("anyOf", str(at)), each) for at, each in enumerate(schema["anyOf"]))
    if isinstance(schema.get("items"), dict):
        yield ("items",), schema["items"]


def _walk(schema: Any, where: Where) -> Iterator[tuple[Where, dict[str, Any]]]:
    if isinstance(schema, dict):
        yield where, schema
        for place, each in _inside(schema):
            yield from _walk(each, (*where, *place))


def _depth(schema: Any) -> int:
    """How many objects and arrays stand in each other."""
    if not isinstance(schema, dict):
        return 0
    inner = max((_depth(each) for _, each in _inside(schema)), default=0)
    return inner + bool({"object", "array"} & _kinds(schema))


def _kinds(schema: dict[str, Any]) -> set[str]:
    """Its types: one, or any of several."""
    kinds = schema.get("type")
    return set(kinds) if isinstance(kinds, list) else {str(kinds)}


def _resolves(reference: Any, root: dict[str, Any]) -> bool:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    found: Any = root
    for part in filter(None, reference[1:].split("/")):
        if not isinstance(found, dict) or part not in found:
            return False
        found = found[part]
    return True


def _in(where: Where) -> str:
    return f"In context={where!r},"
