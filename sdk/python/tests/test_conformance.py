"""The conformance suite, over the workers of both packages."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from haft.conformance import Suite

HERE = Path(__file__).parent


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_the_worker_conforms(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE.parent / "src"))
    command = f"{sys.executable} {HERE / 'conform.py'}"
    if language == "javascript":
        if shutil.which("node") is None:
            pytest.skip("no Node.js here")
        command = f"node {HERE.parents[1] / 'typescript/tests/conform.mjs'}"
    assert Suite(command).run() == []
