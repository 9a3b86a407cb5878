"""A loopback server that speaks OpenAI's APIs as strictly as we know how, faults included.

    with OpenaiApi(policy) as api:              # a policy answers a request body with `Said`
        api.fault(FAULTS["no quota"])           # what goes wrong with the next request
        ...                                     # ask at f"{api.base_url}/v1"
        assert api.asked == 2

It is made from the published reference, the types of the `openai` SDK, and errors that users of the
real service reported; it has never met that service.
"""

from __future__ import annotations

from tests.messages_api.faults import Fault
from tests.messages_api.handler import Received
from tests.openai_servers.faults import CHAT, FAULTS, RESPONSES
from tests.openai_servers.models import KnownModel, family
from tests.openai_servers.policy import Call, Policy, Said, call, custom, refused, said
from tests.openai_servers.server import Answered, OpenaiApi
from tests.openai_servers.shape import Body, Refused

__all__ = [
    "CHAT",
    "FAULTS",
    "RESPONSES",
    "Answered",
    "Body",
    "Call",
    "Fault",
    "KnownModel",
    "OpenaiApi",
    "Policy",
    "Received",
    "Refused",
    "Said",
    "call",
    "custom",
    "family",
    "refused",
    "said",
]
