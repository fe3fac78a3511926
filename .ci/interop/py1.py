"""The Python SDK 1.x: initialize, a session, the GET stream. py1.py URL"""

import sys
from contextlib import AsyncExitStack

import httpx
from checks import Peer, main, plain
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client


class Py1(Peer):
    label = "py1"
    can_cancel = False

    async def __aenter__(self):
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(
                httpx.AsyncClient(timeout=30, event_hooks={"response": [self.on_response]})
            )
            read, write, _ = await stack.enter_async_context(streamable_http_client(self.url, http_client=http))
            self.session = await stack.enter_async_context(
                ClientSession(read, write, logging_callback=self.on_log)
            )
            hello = await self.session.initialize()
            self.version = hello.protocolVersion
            self.server_info = hello.serverInfo
            self.capabilities = hello.capabilities
            self.stack = stack.pop_all()
        return self

    async def __aexit__(self, *error):
        await self.stack.aclose()

    async def list_page(self, method, cursor):
        params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
        return plain(await getattr(self.session, method)(params=params))

    async def call(self, name, arguments, meta=None, on_progress=None):
        return plain(await self.session.call_tool(name, arguments, progress_callback=on_progress, meta=meta))

    async def read(self, uri):
        return plain(await self.session.read_resource(uri))

    async def prompt(self, name, arguments):
        return plain(await self.session.get_prompt(name, arguments))

    async def complete(self, name, argument):
        ref = types.PromptReference(type="ref/prompt", name=name)
        return plain(await self.session.complete(ref, argument))

    async def ping(self):
        await self.session.send_ping()

    async def set_level(self, level):
        await self.session.set_logging_level(level)


main(Py1(sys.argv[1]))
