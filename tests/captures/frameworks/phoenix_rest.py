"""What Phoenix's own server gives back, by its REST API, of spans that it was posted: its server
runs on loopback for as long."""

# /// script
# dependencies = [
#   "arize-phoenix==20.26.1",
#   "openai==3.54.0",
#   "openinference-instrumentation-openai==0.1.66",
# ]
# [tool.capture.phoenix_rest]
# ///

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
URL = f"http://127.0.0.1:{port}"
WORK = Path(os.environ["HOME"]) / "phoenix"


def read(path: str) -> bytes:
    with urllib.request.urlopen(f"{URL}{path}") as answer:
        return answer.read()


def wait_for(path: str, words: str) -> bytes:
    """What is there once it holds these words."""
    for _ in range(480):
        try:
            if words in (found := read(path)).decode():
                return found
        except OSError:
            pass
        time.sleep(0.5)
    raise SystemExit(f"{path} never said {words}")


server = subprocess.Popen(
    [sys.executable, "-m", "phoenix.server.main", "serve"],
    env={
        **os.environ,
        "PHOENIX_WORKING_DIR": str(WORK),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": "0",
        "PHOENIX_TELEMETRY_ENABLED": "false",
    },
)
try:
    wait_for("/healthz", "")
    os.environ["CAPTURE_SINK_URL"] = URL
    import chat_loop
    from openinference.instrumentation.openai import OpenAIInstrumentor
    from shop import tracer_provider

    provider = tracer_provider()
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    with provider.get_tracer("shop").start_as_current_span("refunds"):
        print(chat_loop.run())
    provider.shutdown()
    found = wait_for("/v1/projects/default/spans", "refunds")
    spans = json.dumps(json.loads(found), indent=1)
    (Path(os.environ["CAPTURE_FOLDER"]) / "spans.json").write_text(spans)
finally:
    server.terminate()
    server.wait()
