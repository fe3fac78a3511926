"""An echo server on the official Python SDK.

Usage: python.py json|sessions TOOLS. Its first line of output is its URL; it ends with its
standard input.
"""

import os
import socket
import sys
import threading
from typing import Annotated

import uvicorn
from mcp.server import MCPServer
from pydantic import Field


def echo(text: Annotated[str, Field(description="What to repeat")]) -> str:
    """Repeats a text"""
    return text


def filler(
    query: Annotated[str, Field(description="What to look for")],
    limit: Annotated[int, Field(ge=1, le=100)] = 10,
) -> str:
    """Stands in the listing and is not called"""
    return f"{query} {limit}"


def app(mode: str, tools: int):
    """The application that answers in one of its two ways."""
    server = MCPServer("bench", version="1.0.0", log_level="ERROR")
    server.add_tool(echo, structured_output=False)
    for number in range(1, tools):
        server.add_tool(filler, name=f"tool_{number:02}", structured_output=False)
    if mode == "json":
        return server.streamable_http_app(json_response=True, stateless_http=True)
    return server.streamable_http_app()


def end_with_input() -> None:
    """Ends this process when its parent has gone."""
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    mode, tools = sys.argv[1], int(sys.argv[2])
    threading.Thread(target=end_with_input, daemon=True).start()
    # asyncio disables delayed sending only on a socket that is marked as TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(2048)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(app(mode, tools), log_level="error", access_log=False)
    uvicorn.Server(config).run(sockets=[listener])


main()
