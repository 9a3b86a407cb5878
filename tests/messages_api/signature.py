"""AWS's signature of a request, version 4: computed anew from what came in and a secret key."""

from __future__ import annotations

import hashlib
import hmac
import re
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, urlsplit

from msgspec import Struct

from tests.messages_api.handler import Received

ALGORITHM = "AWS4-HMAC-SHA256"
MOST_SKEW_S = 300.0

_AUTHORIZATION = re.compile(
    rf"{ALGORITHM} Credential=(?P<key>[^/]+)/(?P<date>\d{{8}})/(?P<region>[^/]+)/(?P<service>[^/]+)"
    r"/aws4_request, ?SignedHeaders=(?P<headers>[^,]+), ?Signature=(?P<signature>[0-9a-f]{64})"
)
_NEEDED = frozenset({"host", "x-amz-date"})


class Credentials(Struct, frozen=True, kw_only=True):
    """Who may ask, where; `session_token` is None for one that has no need of it."""

    access_key: str
    secret_key: str
    region: str
    session_token: str | None = None


class Unsigned(Struct, frozen=True):
    """Why a signature is not taken: AWS's kind of error and its sentence."""

    kind: str
    why: str


def flaw(received: Received, known: Credentials, service: str, now_s: float) -> Unsigned | None:
    """Why a request is not signed by these credentials, None where it is."""
    found = _AUTHORIZATION.fullmatch(received.headers.get("authorization", ""))
    if found is None:
        return Unsigned("MissingAuthenticationTokenException", "Missing Authentication Token")
    token = received.headers.get("x-amz-security-token")
    if found["key"] != known.access_key or token != known.session_token:
        why = "The security token included in the request is invalid."
        return Unsigned("UnrecognizedClientException", why)
    names = found["headers"].split(";")
    needed = _NEEDED | ({"x-amz-security-token"} if token else set())
    stamp = received.headers.get("x-amz-date", "")
    if not needed <= set(names) or not stamp.startswith(found["date"]):
        why = "The request signature does not cover the headers that it must."
        return Unsigned("IncompleteSignatureException", why)
    if (found["region"], found["service"]) != (known.region, service):
        why = f"Credential should be scoped to a valid region: '{known.region}/{service}'."
        return Unsigned("InvalidSignatureException", why)
    at = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    if abs(at.timestamp() - now_s) > MOST_SKEW_S:
        return Unsigned("InvalidSignatureException", f"Signature expired: {stamp}")
    scope = f"{found['date']}/{known.region}/{service}/aws4_request"
    made = _signature(received, names, known.secret_key, stamp, scope)
    if hmac.compare_digest(made, found["signature"]):
        return None
    why = "The request signature we calculated does not match the signature you provided."
    return Unsigned("InvalidSignatureException", why)


def _signature(received: Received, names: list[str], secret: str, stamp: str, scope: str) -> str:
    where = urlsplit(received.target)
    query = sorted(
        (quote(n, safe="-_.~"), quote(v, safe="-_.~")) for n, v in parse_qsl(where.query, True)
    )
    canonical = [
        received.method,
        quote(where.path, safe="/-_.~"),
        "&".join(f"{name}={value}" for name, value in query),
        *(f"{name}:{' '.join(received.headers.get(name, '').split())}" for name in names),
        "",
        ";".join(names),
        hashlib.sha256(received.raw).hexdigest(),
    ]
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signed = "\n".join([ALGORITHM, stamp, scope, digest])
    return hmac.new(key, signed.encode(), hashlib.sha256).hexdigest()
