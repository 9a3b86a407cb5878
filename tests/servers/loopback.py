"""Servers on loopback that speak the published APIs of Phoenix, Langfuse and LangSmith, as strictly
as these: a wrong key, an unknown parameter or a page that is too long is refused. `faults` makes
one of the next requests go wrong.
"""

from __future__ import annotations

import base64
import json
import re
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

Record = dict[str, Any]
KEYS = {"phoenix": "px-5ecret", "langfuse": "pk-lf-1:sk-lf-5ecret", "langsmith": "lsv2_5ecret"}


class Answered(NamedTuple):
    """What a request is answered with."""

    status: int
    body: Any
    headers: dict[str, str] = {}


class Fault(NamedTuple):
    """How the next requests for this path go wrong, and how often."""

    path: str
    kind: str
    times: int = 1


class Loopback:
    """One server: what it holds, what was asked of it, and what is to go wrong."""

    def __init__(self, page: int) -> None:
        self.page = page
        self.asked: list[str] = []
        self.faults: list[Fault] = []
        self.url = ""
        self.elsewhere = "http://127.0.0.2:9/"

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answered:
        raise NotImplementedError

    def lets_in(self, headers: Any) -> bool:
        raise NotImplementedError

    def fault(self, path: str) -> str | None:
        for at, each in enumerate(self.faults):
            if re.fullmatch(each.path, path):
                self.faults[at] = each._replace(times=each.times - 1)
                if each.times <= 1:
                    del self.faults[at]
                return each.kind
        return None


def refused(status: int, said: str) -> Answered:
    return Answered(status, {"detail": said})


def only(query: dict[str, list[str]], *known: str) -> None:
    unknown = query.keys() - set(known)
    if unknown:
        raise ValueError(f"unknown parameter: {', '.join(unknown)}")


def one(query: dict[str, list[str]], name: str) -> str | None:
    return query[name][0] if name in query else None


def moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else datetime.fromisoformat(text + "+00:00")


def within(at: str, since: str | None, until: str | None) -> bool:
    return (since is None or moment(at) >= moment(since)) and (
        until is None or moment(at) < moment(until)
    )


class PhoenixServer(Loopback):
    """Spans by project, each with the order in which it came; annotations beside them."""

    def __init__(self, projects: dict[str, list[Record]], page: int = 3) -> None:
        super().__init__(page)
        self.projects = projects
        self.annotations: list[Record] = []
        self.trace_annotations: list[Record] = []

    def lets_in(self, headers: Any) -> bool:
        return bool(headers.get("Authorization") == f"Bearer {KEYS['phoenix']}")

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answered:
        if path == "/arize_phoenix_version":
            return Answered(200, "20.26.1")
        if path == "/v1/projects":
            only(query, "cursor", "limit")
            found: list[Record] = [
                {"name": name, "id": f"P{at}"} for at, name in enumerate(self.projects)
            ]
            return self._page(found[::-1], query, lambda each: int(each["id"][1:]), 1000)
        parts = path.split("/")
        known = {f"P{at}": name for at, name in enumerate(self.projects)}
        if len(parts) != 5 or not path.startswith("/v1/projects/"):
            return Answered(200, "<!doctype html><html>the app</html>")
        project = known.get(unquote(parts[3]), unquote(parts[3]))
        if project not in self.projects:
            return refused(404, "Project not found")
        spans = self.projects[project]
        if parts[4] == "spans":
            only(query, "cursor", "limit", "trace_id", "start_time", "end_time")
            wanted = query.get("trace_id", [])
            rows = [(at, span) for at, span in enumerate(spans)
                    if not wanted or span["context"]["trace_id"] in wanted][::-1]  # fmt: skip
            found = [{**span, "#": at} for at, span in rows]
            answer = self._page(found, query, lambda each: int(each["#"]), 1000)
            if answer.status == 200:
                answer.body["data"] = [
                    {n: v for n, v in each.items() if n != "#"} for each in answer.body["data"]
                ]
            return answer
        if parts[4] == "traces":
            return self._traces(spans, query)
        for name, held, field in (
            ("span_annotations", self.annotations, "span_id"),
            ("trace_annotations", self.trace_annotations, "trace_id"),
        ):
            if parts[4] == name:
                only(query, "cursor", "limit", f"{field}s")
                found = [each for each in held if each[field] in query[f"{field}s"]]
                return self._page(found[::-1], query, held.index, 10_000)
        return refused(404, "Not Found")

    def _traces(self, spans: list[Record], query: dict[str, list[str]]) -> Answered:
        only(query, "cursor", "limit", "start_time", "end_time", "include_spans")
        if int(query["limit"][0]) > 1000:
            return refused(422, "limit")
        traces: dict[str, list[Record]] = {}
        for span in spans:
            traces.setdefault(span["context"]["trace_id"], []).append(span)
        rows = []
        for at, (name, held) in enumerate(traces.items()):
            start = min((each["start_time"] for each in held), key=moment)
            if within(start, one(query, "start_time"), one(query, "end_time")):
                ids = [{"span_id": each["context"]["span_id"]} for each in held]
                rows.append({"#": at, "trace_id": name, "start_time": start, "spans": ids})
        rows.sort(key=lambda each: moment(each["start_time"]), reverse=True)
        # as the real one: sorted by time, and cut by the order in which they came
        return self._page(rows, query, lambda each: int(each["#"]), 1000)

    def _page(
        self,
        found: list[Record],
        query: dict[str, list[str]],
        number: Callable[[Record], int],
        most: int,
    ) -> Answered:
        limit = int(one(query, "limit") or 100)
        if not 0 < limit <= most:
            return refused(422, "limit")
        if (cursor := one(query, "cursor")) is not None:
            found = [each for each in found if number(each) <= int(cursor)]
        size = min(limit, self.page)
        following = str(number(found[size])) if len(found) > size else None
        return Answered(200, {"data": found[:size], "next_cursor": following})


class LangfuseServer(Loopback):
    """Traces as version 3 gives them; with `version` 4 only observations and scores are there."""

    def __init__(self, traces: list[Record], page: int = 3, version: int = 3) -> None:
        super().__init__(page)
        self.traces = traces
        self.version = version

    def lets_in(self, headers: Any) -> bool:
        given = base64.b64encode(KEYS["langfuse"].encode()).decode()
        return bool(headers.get("Authorization") == f"Basic {given}")

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answered:
        if path == "/api/public/health":
            return Answered(200, {"status": "OK", "version": f"{self.version}.9.0"})
        if path == "/api/public/projects":
            return Answered(200, {"data": [{"id": "lf-1", "name": "support", "metadata": {}}]})
        if self.version == 3 and path == "/api/public/traces":
            return self._list(query)
        if self.version == 3 and path.startswith("/api/public/traces/"):
            name = unquote(path.rpartition("/")[2])
            for each in self.traces:
                if each["id"] == name:
                    return Answered(200, each)
        if self.version == 4 and path == "/api/public/v2/observations":
            return self._observations(query)
        if self.version == 4 and path == "/api/public/v3/scores":
            only(query, "traceId", "fields", "limit", "cursor")
            found = [
                {**{n: v for n, v in score.items() if n not in ("traceId", "observationId")},
                 "subject": {"kind": "observation", "id": score["observationId"],
                             "traceId": trace["id"]}
                 if score.get("observationId") else {"kind": "trace", "id": trace["id"]}}
                for trace in self.traces if trace["id"] == one(query, "traceId")
                for score in trace["scores"]
            ]  # fmt: skip
            return self._cursored(found, query, 100)
        return Answered(404, {"message": "Not Found", "error": "LangfuseNotFoundError"})

    def _list(self, query: dict[str, list[str]]) -> Answered:
        only(query, "page", "limit", "fromTimestamp", "toTimestamp", "orderBy", "fields")
        found = [
            each for each in self.traces
            if within(each["timestamp"], one(query, "fromTimestamp"), one(query, "toTimestamp"))
        ]  # fmt: skip
        assert one(query, "orderBy") == "timestamp.desc"
        found.sort(key=lambda each: moment(each["timestamp"]), reverse=True)
        size, page = min(int(query["limit"][0]), self.page), int(query["page"][0])
        part = [
            {**{n: v for n, v in each.items() if n not in ("input", "output", "metadata")},
             "observations": [every["id"] for every in each["observations"]], "scores": []}
            for each in found[(page - 1) * size : page * size]
        ]  # fmt: skip
        pages = -(-len(found) // size)
        meta = {"page": page, "limit": size, "totalItems": len(found), "totalPages": pages}
        return Answered(200, {"data": part, "meta": meta})

    def _observations(self, query: dict[str, list[str]]) -> Answered:
        only(query, "fromStartTime", "toStartTime", "isRootObservation", "traceId", "fields",
             "expandMetadata", "limit", "cursor")  # fmt: skip
        whole = (one(query, "expandMetadata") or "").split(",")
        found = []
        for trace in self.traces:
            ids = {each["id"] for each in trace["observations"]}
            for each in trace["observations"]:
                root = each.get("parentObservationId") not in ids
                if "isRootObservation" in query and not root:
                    continue
                if "traceId" in query and trace["id"] != one(query, "traceId"):
                    continue
                if within(
                    each["startTime"], one(query, "fromStartTime"), one(query, "toStartTime")
                ):
                    found.append(self._observation(trace, each, root, whole))
        found.sort(key=lambda each: moment(each["startTime"]), reverse=True)
        return self._cursored(found, query, 1000)

    def _observation(self, trace: Record, each: Record, root: bool, whole: list[str]) -> Record:
        metadata = json.loads(each["metadata"]) if isinstance(each["metadata"], str) else (
            each["metadata"]
        )  # fmt: skip
        shown = {
            name: value if name in whole else _cut(value)
            for name, value in (metadata or {}).items()
        }
        io = {n: v if v is None or isinstance(v, str) else json.dumps(v)
              for n, v in each.items() if n in ("input", "output")}  # fmt: skip
        kept = {n: v for n, v in each.items() if n not in ("model", "usage")}
        return {
            **kept, **io, "metadata": shown, "traceId": trace["id"], "isRootObservation": root,
            "providedModelName": each.get("model"), "traceName": trace["name"],
            "tags": trace["tags"], "release": trace["release"], "userId": trace["userId"],
            "sessionId": trace["sessionId"], "environment": trace["environment"],
        }  # fmt: skip

    def _cursored(self, found: list[Record], query: dict[str, list[str]], most: int) -> Answered:
        if int(query["limit"][0]) > most:
            return Answered(400, {"message": "limit"})
        start = int(base64.b64decode(one(query, "cursor") or "MA=="))
        end = start + self.page
        meta = {"cursor": base64.b64encode(str(end).encode()).decode()} if len(found) > end else {}
        return Answered(200, {"data": found[start:end], "meta": meta})


def _cut(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    return text[:200] if len(text) > 200 else value


class LangSmithServer(Loopback):
    """Runs and feedback by project, below the path of one's own server."""

    def __init__(self, projects: dict[str, list[Record]], page: int = 3, prefix: str = "") -> None:
        super().__init__(page)
        self.projects = projects
        self.feedback: list[Record] = []
        self.prefix = prefix
        self.knows_details = True

    def lets_in(self, headers: Any) -> bool:
        return bool(headers.get("x-api-key") == KEYS["langsmith"])

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answered:
        if not path.startswith(self.prefix):
            return Answered(200, "<!doctype html><html>the app</html>")
        path = path.removeprefix(self.prefix)
        if path == "/info":
            return Answered(200, {"version": "0.12.1", "batch_ingest_config": {}})
        if path == "/sessions":
            only(query, "limit", "offset", "name")
            found = [{"id": f"s-{name}", "name": name} for name in self.projects
                     if one(query, "name") in (None, name)]  # fmt: skip
            return Answered(200, self._offset(found, query))
        if path == "/feedback":
            only(query, "limit", "offset", "run")
            found = [each for each in self.feedback if each["run_id"] in query["run"]]
            return Answered(200, self._offset(found, query))
        if path == "/runs/query" and method == "POST":
            return self._runs(body)
        return refused(404, "Not Found")

    @staticmethod
    def _offset(found: list[Record], query: dict[str, list[str]]) -> list[Record]:
        limit, offset = int(query["limit"][0]), int(query["offset"][0])
        assert limit <= 100
        return found[offset : offset + limit]

    def _runs(self, body: Record) -> Answered:
        unknown = body.keys() - {"session", "is_root", "start_time", "select", "order", "filter",
                                 "trace", "limit", "cursor"}  # fmt: skip
        if not self.knows_details:
            unknown |= {each for each in body["select"] if each.endswith("_details")}
        if unknown or body["limit"] > 100:
            return refused(422, f"{unknown}")
        (session,) = body["session"]
        found = self.projects[session.removeprefix("s-")]
        until = re.fullmatch(r'lt\(start_time, "(.*)"\)', body.get("filter", 'lt(start_time, "")'))
        assert until is not None
        found = [
            each for each in found
            if within(each["start_time"], body.get("start_time"), until[1] or None)
            and (not body.get("is_root") or each.get("parent_run_id") is None)
            and body.get("trace") in (None, each["trace_id"])
        ]  # fmt: skip
        found.sort(key=lambda each: moment(each["start_time"]), reverse=True)
        start = int(body.get("cursor", "0"))
        end = start + min(self.page, body["limit"])
        part = [{n: v for n, v in each.items() if n in body["select"]} for each in found[start:end]]
        following = str(end) if len(found) > end else None
        return Answered(200, {"runs": part, "cursors": {"next": following}})


OPEN = ("/arize_phoenix_version", "/api/public/health", "/info", "/api/v1/info")


@contextmanager
def serving(held: Loopback, certificate: Path | None = None) -> Iterator[Loopback]:
    """The server, answering until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._do("GET")

        def do_POST(self) -> None:
            self._do("POST")

        def _do(self, method: str) -> None:
            address = urlsplit(self.path)
            size = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(size)) if size else None
            held.asked.append(address.path)
            kind = held.fault(address.path)
            query = parse_qs(address.query, keep_blank_values=True)
            if address.path not in OPEN and not held.lets_in(self.headers):
                self._send(refused(401, "Invalid API key\x1b[2J " + str(self.headers)))
            elif kind is None or kind == "cut":
                try:
                    said = held.answer(method, address.path, query, body)
                except ValueError as error:
                    said = refused(422, str(error))
                self._send(said, cut=kind == "cut")
            else:
                self._fail(kind, method, address.path, query, body)

        def _fail(self, kind: str, *asked: Any) -> None:
            if kind == "slow":
                time.sleep(0.6)
                self._send(held.answer(*asked))
            elif kind == "redirect":
                self._send(Answered(302, "", {"Location": held.elsewhere}))
            elif kind.startswith("429"):
                self._send(Answered(429, "slow down", {"Retry-After": kind[4:] or "0"}))
            elif kind == "html":
                self._send(Answered(200, "<!doctype html><title>sign in</title>"))
            elif kind == "half":
                self._send(Answered(200, '{"data": [{"id'))
            elif kind == "number":
                self._send(Answered(200, 17))
            else:
                self._send(refused(int(kind), "\x1b]0;owned\x07went wrong"))

        def _send(self, said: Answered, cut: bool = False) -> None:
            is_text = isinstance(said.body, str)
            data = said.body.encode() if is_text else json.dumps(said.body).encode()
            self.send_response(said.status)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if cut else data)
            if cut:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    held.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield held
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
