"""The Python SDK 2.x. py2.py URL MODE, with the modes `legacy`, `auto` and `2026-07-28`."""

import sys
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
from checks import main
from kit import Peer, plain
from mcp import Client, ClientSession
from mcp.client import subscriptions
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import ClientMessageMetadata
from mcp_types import (
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    CreateMessageResult,
    ElicitResult,
    ListRootsResult,
    PromptReference,
)


class Py2(Peer):
    def __init__(self, url, mode):
        super().__init__(url)
        self.mode = mode
        self.label = f"py2-{mode}"
        self.is_classic = mode == "legacy"

    async def __aenter__(self):
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(
                httpx2.AsyncClient(
                    timeout=30,
                    transport=self.transport(httpx2),
                    event_hooks={"response": [self.on_response]},
                )
            )
            # Without the cache, every request reaches the server.
            self.client = await stack.enter_async_context(
                Client(
                    streamable_http_client(self.url, http_client=http),
                    mode=self.mode,
                    cache=None,
                    logging_callback=self.on_log,
                    elicitation_callback=self.on_elicitation,
                    sampling_callback=self.on_sampling,
                    list_roots_callback=self.on_roots,
                    message_handler=self.on_message,
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

    async def on_elicitation(self, context, params):
        return ElicitResult.model_validate(await self.answer("elicitation", params))

    async def on_sampling(self, context, params):
        return CreateMessageResult.model_validate(await self.answer("sampling", params))

    async def on_roots(self, context):
        return ListRootsResult.model_validate(await self.answer("roots", None))

    async def on_message(self, message):
        if not isinstance(message, Exception):
            self.hear(plain(message))

    @staticmethod
    def change_of(event):
        """What an event of a subscription says has changed, in the words of the wire."""
        match event:
            case subscriptions.ResourceUpdated(uri=uri):
                return ("notifications/resources/updated", uri)
            case subscriptions.ToolsListChanged():
                return ("notifications/tools/list_changed", None)

    async def visit(self, url):
        async with httpx2.AsyncClient() as browser:
            return (await browser.get(url)).status_code

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

    async def subscribe(self, uri):
        await self.client.subscribe_resource(uri)

    async def unsubscribe(self, uri):
        await self.client.unsubscribe_resource(uri)

    @asynccontextmanager
    async def bare_client(self, session=None):
        """Another client, which ends no session; with a session it goes on where that one is."""
        headers = {"mcp-session-id": session} if session else {}
        hooks = {"response": [self.on_response]}
        async with (
            httpx2.AsyncClient(timeout=30, headers=headers, event_hooks=hooks) as http,
            streamable_http_client(self.url, http_client=http, terminate_on_close=False) as streams,
            ClientSession(*streams[:2], logging_callback=self.on_log) as client,
        ):
            yield client

    async def call_with(self, client, name, arguments, token, on_token):
        metadata = ClientMessageMetadata(resumption_token=token, on_resumption_token_update=on_token)
        request = CallToolRequest(params=CallToolRequestParams(name=name, arguments=arguments))
        return plain(await client.send_request(request, CallToolResult, metadata=metadata))


main(Py2(*sys.argv[1:]))
