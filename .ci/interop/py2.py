"""The Python SDK 2.x. py2.py URL MODE, with the modes `legacy`, `auto` and `2026-07-28`."""

import sys
from contextlib import AsyncExitStack

import httpx2
from checks import Peer, main, plain
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import PromptReference


class Py2(Peer):
    def __init__(self, url, mode):
        super().__init__(url)
        self.mode = mode
        self.label = f"py2-{mode}"
        self.is_classic = mode == "legacy"

    async def __aenter__(self):
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(
                httpx2.AsyncClient(timeout=30, event_hooks={"response": [self.on_response]})
            )
            # Without the cache, every request reaches the server.
            self.client = await stack.enter_async_context(
                Client(
                    streamable_http_client(self.url, http_client=http),
                    mode=self.mode,
                    cache=None,
                    logging_callback=self.on_log,
                )
            )
            self.version = self.client.protocol_version
            # A pinned version is taken at its word: this client then asks for nothing first.
            if self.mode in ("legacy", "auto"):
                self.server_info = self.client.server_info
                self.capabilities = self.client.server_capabilities
            self.stack = stack.pop_all()
        return self

    async def __aexit__(self, *error):
        await self.stack.aclose()

    async def list_page(self, method, cursor):
        return plain(await getattr(self.client, method)(cursor=cursor))

    async def call(self, name, arguments, meta=None, on_progress=None):
        return plain(await self.client.call_tool(name, arguments, progress_callback=on_progress, meta=meta))

    async def read(self, uri):
        return plain(await self.client.read_resource(uri))

    async def prompt(self, name, arguments):
        return plain(await self.client.get_prompt(name, arguments))

    async def complete(self, name, argument):
        return plain(await self.client.complete(PromptReference(name=name), argument))

    async def ping(self):
        await self.client.send_ping()

    async def set_level(self, level):
        await self.client.set_logging_level(level)


main(Py2(*sys.argv[1:]))
