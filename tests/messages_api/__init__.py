"""A loopback server that speaks the Messages API as strictly as we know how, faults included.

    with MessagesApi(policy) as api:            # a policy answers a request body with a message
        api.fault(FAULTS["overloaded"])         # what goes wrong with the next request
        ...                                     # ask at api.base_url
        assert api.asked == 2

`refusal` is the validation alone: the sentence with which the API would refuse a body, None where
it would take it. It is made from what is documented, and has never met the real service.
"""

from __future__ import annotations

from tests.messages_api.answering import Answered
from tests.messages_api.content import (
    Body,
    Policy,
    message,
    redacted,
    text,
    thinking,
    tool_use,
)
from tests.messages_api.faults import (
    BATCH_RESULTS,
    BATCHES,
    FAULTS,
    MESSAGES,
    ONE_BATCH,
    Fault,
)
from tests.messages_api.handler import Received
from tests.messages_api.models import KnownModel
from tests.messages_api.platforms import CREDENTIALS, BedrockApi, VertexApi
from tests.messages_api.policies import demo_policy, sampled
from tests.messages_api.refusal import ALWAYS_THINKING, count_refusal, refusal
from tests.messages_api.seal import BINDING_BETA
from tests.messages_api.server import VERSION, MessagesApi
from tests.messages_api.signature import Credentials

__all__ = [
    "ALWAYS_THINKING",
    "BATCHES",
    "BATCH_RESULTS",
    "BINDING_BETA",
    "CREDENTIALS",
    "FAULTS",
    "MESSAGES",
    "ONE_BATCH",
    "VERSION",
    "Answered",
    "BedrockApi",
    "Body",
    "Credentials",
    "Fault",
    "KnownModel",
    "MessagesApi",
    "Policy",
    "Received",
    "VertexApi",
    "count_refusal",
    "demo_policy",
    "message",
    "redacted",
    "refusal",
    "sampled",
    "text",
    "thinking",
    "tool_use",
]
