"""The Python SDK's server with one trivial tool, answering in JSON.

usage: server.py PORT
"""

import sys

import uvicorn
from mcp.server import MCPServer

server = MCPServer("adder", log_level="ERROR")


@server.tool()
async def add(a: int, b: int) -> str:
    """Adds two integers."""
    return str(a + b)


app = server.streamable_http_app(stateless_http=True, json_response=True)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", access_log=False)
