"""Would this judge judge its own kind? Models favour answers of their own family."""

from __future__ import annotations

import re
from collections.abc import Iterable

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


def warning(judge: str, agents: Iterable[str]) -> str | None:
    """What speaks against a judge of these agents' models, None where nothing is known to."""
    models = list(dict.fromkeys(agents))
    if not models:
        return "which model the agent ran on is not recorded: the judge may be of its family"
    own = family(judge)
    same = [model for model in models if model == judge or (own and family(model) == own)]
    if not same:
        return None
    kind = f"of one family ({own})" if own else "one model"
    return f"{judge} judges {', '.join(same)}: {kind}; models favour their own, use another family"
