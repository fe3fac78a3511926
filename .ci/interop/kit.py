"""What every check is made of: the client, a name, a limit on its time, a line that says how it ended."""

import json
import time

import anyio

CHECK_SECONDS_MAX = 20
PAGES_MAX = 50
LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel"


class Peer:
    """What the two SDKs spell differently; every result is the plain JSON of the wire.

    A subclass is an async context manager that connects and closes, and has the requests
    `list_page(method, cursor)`, `call(name, arguments, meta, on_progress)`, `read(uri)`,
    `prompt(name, arguments)`, `complete(name, argument)`, `ping()`, `set_level(level)`,
    `subscribe(uri)` and `unsubscribe(uri)`, and `visit(url)`, which is none of the client's. In the
    classic era `bare_client(session)` is a second client without all that, and
    `call_with(client, name, arguments, token, on_token)` a call of it that may be resumed.
    """

    label = ""
    is_classic = True
    # Whether its session is that of one stream.
    is_sse = False
    # Whether a cancelled call tells the server so.
    can_cancel = True
    version = None
    # None where the client asks for neither.
    server_info = None
    capabilities = None

    def __init__(self, url):
        self.url = url
        self.logs = []
        self.seen = []
        # How the client answers when it is asked, by what it is asked for.
        self.answers = {}
        # Who hears of changes that the server announces to a classic session.
        self.on_change = lambda change: None
        # The connection of the next streamed tool call breaks after so many events.
        self.cut_after = None

    async def on_log(self, params):
        self.logs.append(plain(params))

    async def on_response(self, response):
        request = response.request
        session = request.headers.get("mcp-session-id") or response.headers.get("mcp-session-id")
        session = session or request.url.params.get("sessionId")
        resumes_at = request.headers.get("last-event-id")
        self.seen.append(
            {
                "method": request.method,
                "status": response.status_code,
                "session": session,
                "resumes_at": resumes_at,
            }
        )

    async def answer(self, kind, params):
        return await self.answers[kind](None if params is None else plain(params))

    def hear(self, notification):
        """Keeps what a notification says has changed."""
        if notification["method"] in CHANGES:
            self.on_change((notification["method"], notification.get("params", {}).get("uri")))

    def transport(self, http):
        """A transport of this HTTP library that breaks when it is told to."""
        peer = self

        class Broken(http.AsyncByteStream):
            def __init__(self, stream, events):
                self.stream, self.events = stream, events

            async def __aiter__(self):
                text = b""
                async for chunk in self.stream:
                    text += chunk
                    yield chunk
                    if text.count(b"\n\n") >= self.events:
                        raise http.ReadError("the connection was cut")

            async def aclose(self):
                await self.stream.aclose()

        class Transport(http.AsyncHTTPTransport):
            async def handle_async_request(self, request):
                response = await super().handle_async_request(request)
                is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
                if peer.cut_after is not None and is_stream and request.method == "POST":
                    response.stream = Broken(response.stream, peer.cut_after)
                    peer.cut_after = None
                return response

        return Transport()


CHANGES = ("notifications/resources/updated", "notifications/tools/list_changed")

def plain(model):
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


class Checks:
    def __init__(self, peer):
        self.peer = peer
        self.failed = 0

    def ok(self, name):
        print(f"ok {self.peer.label}/{name}", flush=True)

    def fail(self, name, error):
        self.failed += 1
        error = innermost(error)
        why = str(error) if isinstance(error, AssertionError) else repr(error)
        why = " ".join(why.split())[:300]
        print(f"FAIL {self.peer.label}/{name}: {why}", flush=True)

    async def run(self, name, check, *args):
        try:
            with anyio.fail_after(CHECK_SECONDS_MAX):
                await check(*args)
            self.ok(name)
        except Exception as error:
            self.fail(name, error)


def innermost(error):
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def must(condition, why):
    if not condition:
        raise AssertionError(why if isinstance(why, str) else json.dumps(why))


async def refused(peer, request):
    """The code of the error that a request is answered with."""
    first = len(peer.seen)
    try:
        answer = await request
    except Exception as error:
        must(hasattr(error, "error"), repr(error))
        return error.error.code
    finally:
        for entry in peer.seen[first:]:
            entry["refusal"] = True
    raise AssertionError(f"answered {answer}")


async def until(condition, seconds):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        await anyio.sleep(0.02)


async def pages(peer, method, key):
    """Every item of a list, page by page."""
    items, cursors, cursor = [], set(), None
    while True:
        page = await peer.list_page(method, cursor)
        items += page[key]
        cursor = page.get("nextCursor")
        if cursor is None:
            return items
        must(cursor not in cursors, f"cursor {cursor} came twice")
        cursors.add(cursor)
        must(len(cursors) < PAGES_MAX, f"more than {PAGES_MAX} pages")


def text_of(result):
    return result["content"][0].get("text")
