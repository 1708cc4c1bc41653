"""What is told of a server while it runs: metrics, logs, spans."""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import anthropic
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from conftest import KEY, PATIENCE, api_of, serving, started
from conftest import until as until_found
from test_conversations import ASKING, TOOLSET, confirm, say, the


def fetch(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read().decode()


def read_metrics(base_url):
    status, headers, text = fetch(f"{base_url}/metrics")
    assert status == 200 and headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    return families, text


def value(families, family, name, **labels):
    found = [
        sample.value
        for sample in families[family].samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert found, (name, labels)
    return sum(found)


def test_metrics_are_read_by_prometheus_own_parser(base_url, provider, open_session, until_idle):
    before, _ = read_metrics(base_url)
    session = open_session([TOOLSET])
    provider.will_answer([{"tool": "bash", "input": {"command": "true"}}], [{"text": "done"}])
    until_idle(session, [say("go")])
    for n in range(50):
        assert fetch(f"{base_url}/nowhere/{n}")[0] == 404
        assert fetch(f"{base_url}/haft/v1/sessions/sesn_{n}", **{"x-api-key": KEY})[0] == 404

    def counted():
        after, text = read_metrics(base_url)

        def grown(family, name, **labels):
            return value(after, family, name, **labels) - value(before, family, name, **labels)

        is_all = (
            grown("haft_calls", "haft_calls_total", outcome="ok") >= 1
            and grown("haft_model_requests", "haft_model_requests_total", result="answered") >= 2
            and grown("haft_model_tokens", "haft_model_tokens_total", direction="input") >= 20
        )
        return (after, text) if is_all else None

    # The server answers with what the store said up to two seconds ago.
    after, text = until_found(counted, "the call, two questions and their tokens")
    route = "/haft/v1/sessions/{session}/"
    requests = ("haft_http_requests", "haft_http_requests_total")
    assert value(after, *requests, status="404", method="GET") >= 100
    routes = {sample.labels["route"] for sample in after["haft_http_requests"].samples}
    assert "(none)" in routes and not any("nowhere" in it or "sesn_" in it for it in routes), routes
    assert any(it.rstrip("/") == route.rstrip("/") for it in routes), routes
    for name in ["haft_sessions_live", "haft_webhook_deliveries_pending"]:
        assert after[name].type == "gauge" and value(after, name, name) >= 0
    assert value(after, "process_resident_memory_bytes", "process_resident_memory_bytes") > 1e6
    for family in ["haft_store_append_duration_seconds", "haft_store_batch_size"]:
        assert after[family].type == "histogram"
        counted = value(after, family, f"{family}_count")
        assert counted >= 1 and value(after, family, f"{family}_bucket", le="+Inf") == counted
        buckets = [s.value for s in after[family].samples if s.name == f"{family}_bucket"]
        assert buckets == sorted(buckets), "each range holds the ones below"
    assert KEY not in text and session.id not in text and "claude" not in text


def test_a_call_that_waits_is_counted_as_pending(provider, tmp_path):
    with serving(provider, tmp_path) as url:
        client = anthropic.Anthropic(base_url=url, api_key=KEY)
        asked_session(client, provider)
        families, _ = read_metrics(url)
        assert value(families, "haft_calls_pending", "haft_calls_pending", kind="approval") == 1


def asked_session(client, provider):
    """A session whose first call waits to be approved, and the event that asks."""
    environment = client.beta.environments.create(name="test")
    agent = client.beta.agents.create(name="test", model="claude-opus-5-5", tools=[ASKING])
    session = client.beta.sessions.create(agent=agent.id, environment_id=environment.id)
    call = {"tool": "bash", "input": {"command": "echo canary-42"}}
    provider.will_answer([call])
    client.beta.sessions.events.send(session.id, events=[say("go")])
    return session, until(client, session, "requires_action")


def until(client, session, reason):
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        events = list(client.beta.sessions.events.list(session.id))
        last = events[-1]
        if last.type == "session.status_idle" and last.stop_reason.type == reason:
            return events
        time.sleep(0.02)
    raise AssertionError([event.type for event in events])


class Collector:
    """Takes spans as a collector does, with OpenTelemetry's own decoder."""

    def __init__(self):
        self.spans, self.resources, self.headers = [], [], []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                request = ExportTraceServiceRequest.FromString(body)
                for of_resource in request.resource_spans:
                    collector.resources.append(attributes(of_resource.resource))
                    for of_scope in of_resource.scope_spans:
                        collector.spans.extend(of_scope.spans)
                collector.headers.append({**self.headers, "path": self.path})
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def named(self, start):
        return [span for span in self.spans if span.name.startswith(start)]


def attributes(of):
    def plain(any_value):
        kind = any_value.WhichOneof("value")
        if kind == "array_value":
            return [plain(one) for one in any_value.array_value.values]
        return getattr(any_value, kind)

    return {pair.key: plain(pair.value) for pair in of.attributes}


def a_run_over_two_processes(provider, data, export, monkeypatch):
    """A run that waits for an approval, which is given to the next process."""
    for name, setting in export.items():
        monkeypatch.setenv(name, setting)
    with serving(provider, data) as url:
        client = anthropic.Anthropic(base_url=url, api_key=KEY)
        session, events = asked_session(client, provider)
    with serving(provider, data) as url:
        client = anthropic.Anthropic(base_url=url, api_key=KEY)
        client.beta.sessions.events.send(
            session.id, events=[confirm(the(events, "agent.tool_use").id, "allow")]
        )
        until(client, session, "end_turn")
    return session


def test_spans_have_the_genai_names_and_one_trace_over_a_suspension(
    provider, tmp_path, monkeypatch
):
    collector = Collector()
    export = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_EXPORTER_OTLP_HEADERS": "x-collector-key=abc",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
    }
    session = a_run_over_two_processes(provider, tmp_path, export, monkeypatch)
    assert {header["path"] for header in collector.headers} == {"/v1/traces"}
    assert collector.headers[0]["x-collector-key"] == "abc"
    assert collector.resources[0]["service.name"] == "haft"
    assert collector.resources[0]["deployment.environment"] == "test"

    agents = collector.named("invoke_agent")
    chats, tools = collector.named("chat"), collector.named("execute_tool")
    assert len(agents) == 2 and len(chats) == 2 and len(tools) == 1, collector.spans
    assert len({span.trace_id for span in collector.spans}) == 1, "the run is one trace"
    (root,) = [span for span in agents if not span.parent_span_id]
    (resumed,) = [span for span in agents if span.parent_span_id]
    assert resumed.parent_span_id == root.span_id
    by_id = {span.span_id: span for span in collector.spans}
    assert len(by_id) == len(collector.spans)
    assert sorted(by_id[chat.parent_span_id] is root for chat in chats) == [False, True]
    assert by_id[tools[0].parent_span_id] is resumed, "it ran in the second process"
    for span in collector.spans:
        said = attributes(span)
        assert said["gen_ai.conversation.id"] == session.id
        assert said["gen_ai.operation.name"] == span.name.split()[0]
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
    asked = attributes(chats[0])
    assert chats[0].kind == chats[0].SPAN_KIND_CLIENT
    assert asked["gen_ai.provider.name"] == "anthropic"
    assert asked["gen_ai.usage.input_tokens"] == 10
    assert isinstance(asked["gen_ai.response.finish_reasons"], list)
    assert attributes(tools[0])["gen_ai.tool.name"]
    everything = "".join(map(str, collector.spans))
    assert KEY not in everything and "canary" not in everything, "contents are not exported"


def test_a_log_of_json_says_which_request_and_no_secret(provider, tmp_path):
    environment = {**os.environ, "HAFT_API_KEY": KEY, "ANTHROPIC_API_KEY": "fake-model-key"}
    command = [os.environ["HAFT"], "serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path)]
    command += ["--log-format", "json", "--log-level", "debug"]
    with started(command, env=environment, stderr=subprocess.PIPE) as server:
        url = api_of(server)
        _, headers, _ = fetch(f"{url}/v1/agents", **{"x-api-key": KEY})
        fetch(f"{url}/v1/agents?key=hush-hush", **{"x-api-key": "wrong-key"})
        server.terminate()
        log = server.communicate(timeout=PATIENCE)[1]
        assert server.returncode == 0
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    answered = [line for line in lines if line.get("message") == "answered"]
    (mine,) = [line for line in answered if line["request_id"] == headers["request-id"]]
    assert (mine["route"], mine["method"], mine["status"]) == ("/v1/agents", "GET", 200)
    for secret in [KEY, "wrong-key", "hush-hush", "fake-model-key"]:
        assert secret not in log


@pytest.mark.skipif("HAFT_PHOENIX" not in os.environ, reason="opt in with HAFT_PHOENIX=1")
def test_phoenix_shows_agent_model_and_tool(provider, tmp_path, monkeypatch):
    """Arize Phoenix, from PyPI; `HAFT_PHOENIX` may name an environment that has it."""
    home = os.environ["HAFT_PHOENIX"]
    if home == "1":
        home = str(tmp_path / "phoenix")
        subprocess.check_call([sys.executable, "-m", "venv", home])
        subprocess.check_call([f"{home}/bin/pip", "install", "-q", "arize-phoenix==20.26.1"])
    settings = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": "16006",
        "PHOENIX_GRPC_PORT": "14317",
        "PHOENIX_TELEMETRY_ENABLED": "false",
        "PHOENIX_WORKING_DIR": str(tmp_path / "kept"),
    }
    phoenix = subprocess.Popen(
        [f"{home}/bin/phoenix", "serve"], env={**os.environ, **settings}, stdout=subprocess.DEVNULL
    )
    url = "http://127.0.0.1:16006"
    try:
        wait_for(url)
        export = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": url,
            "OTEL_RESOURCE_ATTRIBUTES": "openinference.project.name=haft",
        }
        a_run_over_two_processes(provider, tmp_path / "haft", export, monkeypatch)
        spans = "spans(first: 100) { edges { node { name spanKind } } }"
        query = f"{{ projects {{ edges {{ node {{ name {spans} }} }} }} }}"
        deadline = time.monotonic() + PATIENCE
        kinds = set()
        while kinds != {"agent", "llm", "tool"}:
            assert time.monotonic() < deadline, kinds
            time.sleep(0.5)
            body = json.dumps({"query": query}).encode()
            asked = urllib.request.Request(
                f"{url}/graphql", body, {"content-type": "application/json"}
            )
            projects = json.load(urllib.request.urlopen(asked))["data"]["projects"]["edges"]
            spans = [
                span["node"]
                for project in projects
                if project["node"]["name"] == "haft"
                for span in project["node"]["spans"]["edges"]
            ]
            kinds = {span["spanKind"].lower() for span in spans}
    finally:
        phoenix.terminate()
        phoenix.wait()


def wait_for(url):
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"{url} does not answer")
