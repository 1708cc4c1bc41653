"""The refund desk in Python and in JavaScript: the same story, the same book at the bank.

The Rust desk tells it in one process, and its README's transcript is checked by ``cargo xtask test``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

import haft
from haft.testing import Node
from test_serve import eventually

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/refund-desk"


def client(node: Node, actor: str) -> haft.Client:
    """A client for somebody with a key of their own."""
    body = {"actor": actor, "scopes": ["read", "write", "approve"]}
    made = node.client.request("POST", "/haft/v1/keys", body)
    return haft.Client(node.url, made["key"])


@pytest.mark.parametrize("language", ["python", "javascript"])
def test_a_refund_that_two_approve_dies_inside_the_effect_and_is_settled_and_taken_back(
    language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = f"{sys.executable} {EXAMPLE / 'desk.py'}"
    if language == "javascript":
        if shutil.which("node") is None:
            pytest.skip("no Node.js here")
        # As npm would install it.
        packages = tmp_path / "node_modules"
        packages.mkdir()
        (packages / "haft").symlink_to(ROOT / "sdk/typescript")
        shutil.copy(EXAMPLE / "desk.mjs", tmp_path)
        command = f"node {tmp_path / 'desk.mjs'}"
    bank = tmp_path / "bank.txt"
    monkeypatch.setenv("BANK", str(bank))
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "sdk/python/src"))
    with Node("--worker", command) as node:
        eventually(lambda: any(tool["name"] == "refund" for tool in node.client.tools()))
        carla, ann, bob = (client(node, name) for name in ("carla", "ann", "bob"))
        call = carla.call("refund", {"charge": "ch_1", "cents": 90_000})
        assert call.state == "waiting" and not bank.exists()
        assert ann.approve(call)["decision"] == "endorse"
        with pytest.raises(haft.ApiError):
            ann.approve(call)
        bob.approve(call)
        # The worker dies with the money gone. Nothing is run again, and it is said so.
        waits = lambda: [w for w in ann.pending() if w["kind"] == "settlement"]  # noqa: E731
        eventually(waits)
        assert bank.read_text() == "paid 90000 for ch_1\n"
        ann.settle(call, "happened", {"id": "re_ch_1"})
        assert ann.wait(call).value == {"id": "re_ch_1"}
        back = bob.undo(call)
        assert back["state"] == "waiting"
        ann.approve(haft.Call(back["session"], back["call"], "waiting"))
        expected = "paid 90000 for ch_1\nclaimed re_ch_1 back\n"
        eventually(lambda: bank.read_text() == expected)
