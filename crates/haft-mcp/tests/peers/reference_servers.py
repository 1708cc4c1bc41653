"""The reference servers for git, time and SQLite behind Haft: two of this revision, one of the last."""

import asyncio
import subprocess
import sys
from pathlib import Path

from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from haft import Haft, awaited, handle_in

MODERN = Path(sys.executable).parent
LEGACY = MODERN.parents[1] / "legacy/bin"


async def call(haft, client, tool, arguments):
    """Calls a tool; what asks is approved by somebody else."""
    result = await client.call_tool(tool, arguments, raise_on_error=False)
    text = result.content[0].text
    if "Not done yet" not in text:
        return text
    await asyncio.to_thread(haft.approve)
    return (await awaited(client.call_tool, handle_in(text))).content[0].text


async def talk(haft, repository):
    async with Client(StreamableHttpTransport(haft.mcp, headers=haft.headers)) as client:
        log = await call(haft, client, "git_git_log", {"repo_path": str(repository)})
        assert "the first commit" in log, log
        now = await call(haft, client, "time_get_current_time", {"timezone": "Europe/Berlin"})
        assert "Europe/Berlin" in now, now
        table = "CREATE TABLE notes (body TEXT)"
        await call(haft, client, "sqlite_create_table", {"query": table})
        insert = "INSERT INTO notes VALUES ('kept')"
        await call(haft, client, "sqlite_write_query", {"query": insert})
        rows = await call(haft, client, "sqlite_read_query", {"query": "SELECT body FROM notes"})
        assert rows.count("kept") == 1, rows


def git(*arguments):
    who = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    subprocess.run(["git", *who, *arguments], check=True, stdout=subprocess.DEVNULL)


haft = Haft()
repository, database = haft.here / "repository", haft.here / "notes.db"
git("init", "-q", repository)
git("-C", repository, "commit", "-q", "--allow-empty", "-m", "the first commit")
haft.mount(
    git=[MODERN / "mcp-server-git", "--repository", repository],
    time=[MODERN / "mcp-server-time"],
    sqlite=[LEGACY / "mcp-server-sqlite", "--db-path", database],
)
with haft:
    asyncio.run(talk(haft, repository))
