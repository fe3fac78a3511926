"""The Python SDK 1.x: initialize, a session, the GET stream; or with `sse` the transport of
2024-11-05, which it keeps for old servers. py1.py URL [sse]"""

import sys
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urljoin

import httpx
from checks import main
from kit import Peer, plain
from mcp import ClientSession, types
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import ClientMessageMetadata


class Py1(Peer):
    label = "py1"
    can_cancel = False

    async def __aenter__(self):
        async with AsyncExitStack() as stack:
            read, write = await self.open(stack)
            self.session = await stack.enter_async_context(
                ClientSession(
                    read,
                    write,
                    logging_callback=self.on_log,
                    elicitation_callback=self.on_elicitation,
                    sampling_callback=self.on_sampling,
                    list_roots_callback=self.on_roots,
                    message_handler=self.on_message,
                )
            )
            hello = await self.session.initialize()
            self.version = hello.protocolVersion
            self.server_info = hello.serverInfo
            self.capabilities = hello.capabilities
            self.stack = stack.pop_all()
        return self

    def http(self, headers=None, timeout=30, auth=None):
        return httpx.AsyncClient(
            headers=headers,
            timeout=timeout,
            auth=auth,
            transport=self.transport(httpx),
            event_hooks={"response": [self.on_response]},
        )

    async def open(self, stack):
        http = await stack.enter_async_context(self.http())
        read, write, _ = await stack.enter_async_context(streamable_http_client(self.url, http_client=http))
        return read, write

    async def __aexit__(self, *error):
        await self.stack.aclose()

    async def on_elicitation(self, context, params):
        return types.ElicitResult.model_validate(await self.answer("elicitation", params))

    async def on_sampling(self, context, params):
        return types.CreateMessageResult.model_validate(await self.answer("sampling", params))

    async def on_roots(self, context):
        return types.ListRootsResult.model_validate(await self.answer("roots", None))

    async def on_message(self, message):
        if isinstance(message, types.ServerNotification):
            self.hear(plain(message))

    async def visit(self, url):
        async with httpx.AsyncClient() as browser:
            return (await browser.get(url)).status_code

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

    async def subscribe(self, uri):
        await self.session.subscribe_resource(uri)

    async def unsubscribe(self, uri):
        await self.session.unsubscribe_resource(uri)

    @asynccontextmanager
    async def bare_client(self, session=None):
        """Another client, which ends no session; with a session it goes on where that one is."""
        headers = {"mcp-session-id": session} if session else {}
        async with (
            self.http(headers) as http,
            streamable_http_client(self.url, http_client=http, terminate_on_close=False) as streams,
            ClientSession(*streams[:2], logging_callback=self.on_log) as client,
        ):
            yield client

    async def call_with(self, client, name, arguments, token, on_token):
        metadata = ClientMessageMetadata(resumption_token=token, on_resumption_token_update=on_token)
        params = types.CallToolRequestParams(name=name, arguments=arguments)
        request = types.ClientRequest(types.CallToolRequest(params=params))
        return plain(await client.send_request(request, types.CallToolResult, metadata=metadata))


class Py1Sse(Py1):
    label = "py1-sse"
    is_sse = True

    async def open(self, stack):
        url = urljoin(self.url, "/sse")
        return await stack.enter_async_context(sse_client(url, httpx_client_factory=self.http))

    async def post_stale(self, session, body):
        async with httpx.AsyncClient() as http:
            url = urljoin(self.url, "/messages")
            return (await http.post(url, params={"sessionId": session}, json=body)).status_code


main(Py1Sse(sys.argv[1]) if sys.argv[2:] == ["sse"] else Py1(sys.argv[1]))
