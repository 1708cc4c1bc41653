"""The API's description, taken at its word: requests made from it, good and bad."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import anthropic

from conftest import KEY, PATIENCE, serving

# What holds for every answer, however the request was made.
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "ignored_auth",
]


def test_requests_made_from_the_description_find_no_fault(provider, tmp_path):
    with serving(provider, tmp_path) as url:
        client = anthropic.Anthropic(base_url=url, api_key=KEY)
        client.beta.sessions.create(agent="agent_demo", environment_id="env_demo")
        command = [
            str(Path(sys.executable).parent / "schemathesis"),
            "run",
            f"{url}/openapi.json",
            f"--header=x-api-key: {KEY}",
            f"--checks={','.join(CHECKS)}",
            # What is streamed does not end.
            "--exclude-path-regex=stream$",
            "--phases=examples,coverage,fuzzing",
            "--max-time=60",
            "--max-examples=25",
            f"--request-timeout={PATIENCE}",
            "--seed=1",
            # Several trip over CPython 3.11, whose `ast` is not safe for threads.
            "--workers=1",
            "--continue-on-failure",
            "--no-color",
            "--warnings=off",
        ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60 + 2 * PATIENCE)
        assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]


def test_the_description_names_what_the_sdk_calls(base_url):
    with urllib.request.urlopen(f"{base_url}/openapi.json") as answer:
        document = json.load(answer)
    assert document["openapi"].startswith("3.1")
    paths = document["paths"]
    for path in ("/v1/agents", "/v1/sessions/{session}/events", "/haft/v1/pending"):
        assert "get" in paths[path]
    agent = paths["/v1/agents"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert agent == {"$ref": "#/components/schemas/Agent"}
    assert "name" in document["components"]["schemas"]["Agent"]["required"]
