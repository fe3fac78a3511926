"""What a client is asked, hears of changes, and collects after its connection is gone."""

import re
from contextlib import asynccontextmanager

import anyio
from kit import LOG_LEVEL_KEY, must, pages, text_of, until

CLOCK = "demo://clock"
STEPS = 6


async def elicit_form(peer):
    asked = {}

    async def answer(params):
        asked.update(params)
        content = {"name": "Ada", "guests": 3, "kitchen": "greek", "outside": True}
        return {"action": "accept", "content": content}

    peer.answers["elicitation"] = answer
    text = text_of(await peer.call("book_table", {}))
    must(text == "A greek table outside for 3 is booked for Ada.", text)
    must(asked["requestedSchema"]["properties"]["guests"]["maximum"] == 12, asked)
    must("name" in asked["requestedSchema"]["required"], asked)


async def elicit_decline(peer):
    async def answer(params):
        return {"action": "decline"}

    peer.answers["elicitation"] = answer
    text = text_of(await peer.call("book_table", {}))
    must(text == "No table was booked.", text)


async def elicit_later(peer):
    """What the call has done before it asked is not done again: its state comes back."""

    async def answer(params):
        return {"action": "accept", "content": {"icing": True}}

    peer.answers["elicitation"] = answer
    text = text_of(await peer.call("bake_cake", {"seconds": 0.2}))
    must(text == "a cake with icing", text)


async def elicit_url(peer):
    visits = True

    async def answer(params):
        must(params["mode"] == "url", params)
        if visits:
            must(await peer.visit(params["url"]) == 200, f"{params['url']} is not there")
        return {"action": "accept"}

    peer.answers["elicitation"] = answer
    must(text_of(await peer.call("sign_in", {})) == "You are signed in.", "not signed in")
    visits = False
    must(text_of(await peer.call("sign_in", {})) == "You are not signed in.", "signed in without a visit")


async def sampling(peer):
    async def answer(params):
        content = params["messages"][0]["content"]
        block = content[0] if isinstance(content, list) else content
        text = f"{block['text']} {params['maxTokens']}"
        return {"role": "assistant", "model": "parrot", "content": {"type": "text", "text": text}}

    peer.answers["sampling"] = answer
    text = text_of(await peer.call("ask_model", {"prompt": "polly"}))
    must(text == "The model says: polly 100", text)


async def roots(peer):
    async def answer(params):
        return {"roots": [{"uri": "file:///home/ada", "name": "home"}, {"uri": "file:///srv/wheel"}]}

    peer.answers["roots"] = answer
    text = text_of(await peer.call("list_folders", {}))
    must(text == "file:///home/ada\nfile:///srv/wheel", text)


@asynccontextmanager
async def listening(peer, **wanted):
    """Everything that is heard inside, as (method, uri)."""
    heard = []
    if peer.is_classic:
        peer.on_change = heard.append
        uris = wanted.get("resource_subscriptions", ())
        for uri in uris:
            await peer.subscribe(uri)
        yield heard
        for uri in uris:
            await peer.unsubscribe(uri)
        return

    async def listen(subscription):
        async for event in subscription:
            heard.append(peer.change_of(event))

    async with peer.client.listen(**wanted) as subscription, anyio.create_task_group() as group:
        group.start_soon(listen, subscription)
        yield heard
        group.cancel_scope.cancel()


async def resource_update(peer):
    async def read():
        return int((await peer.read(CLOCK))["contents"][0]["text"])

    before = await read()
    async with listening(peer, resource_subscriptions=[CLOCK]) as heard:
        await until(lambda: len(heard) >= 2, 5)
        must(len(heard) >= 2, f"{len(heard)} updates")
        must(set(heard) == {("notifications/resources/updated", CLOCK)}, heard)
    must(await read() > before, "it was updated and reads the same")


async def tools_list_changed(peer):
    name = "extra_" + re.sub("[^a-z0-9]", "_", peer.label)
    change = ("notifications/tools/list_changed", None)

    async def names():
        return [tool["name"] for tool in await pages(peer, "list_tools", "tools")]

    async with listening(peer, tools_list_changed=True) as heard:
        must(not (await peer.call("offer_tool", {"name": name})).get("isError"), "it was not offered")
        await until(lambda: heard, 5)
        must(heard == [change], heard)
        must(name in await names(), f"no {name} in the list")
        must(text_of(await peer.call(name, {})) == f"{name} at your service", "it does not answer")
        must(not (await peer.call("withdraw_tool", {"name": name})).get("isError"), "it was not withdrawn")
        await until(lambda: len(heard) >= 2, 5)
        must(heard == [change, change], heard)
        must(name not in await names(), f"{name} is still in the list")


async def hang_up(peer):
    """The server lets the connection go, and a classic client comes back for the rest."""
    first = len(peer.seen)
    seen = []

    async def on_progress(progress, total, message):
        seen.append(progress)

    await run_errand(peer, True, on_progress)
    must(seen == [1, 2, 3, 4, 5, 6], f"progress {seen}")
    resumes = [entry for entry in peer.seen[first:] if entry["resumes_at"]]
    must(bool(resumes) == (peer.is_classic and not peer.is_sse), peer.seen[first:])


async def cut(peer):
    """The connection breaks, and the client comes back for the rest."""
    first = len(peer.seen)
    peer.cut_after = 3
    await run_errand(peer, False, None)
    must(peer.cut_after is None, "the connection was never cut")
    must(len([entry for entry in peer.seen[first:] if entry["resumes_at"]]) == 1, peer.seen[first:])


async def resumption_token(peer):
    """One client leaves a call, and another that knows the session and the token collects it."""
    arguments = {"steps": STEPS, "delay_ms": 120, "hang_up": False}
    token = None
    peer.logs.clear()

    async def keep(new):
        nonlocal token
        token = new

    async with peer.bare_client() as one:
        await one.initialize()
        async with anyio.create_task_group() as group:
            group.start_soon(peer.call_with, one, "errand", arguments, None, keep)
            await until(lambda: len(peer.logs) >= 2, 5)
            session = peer.seen[-1]["session"]
            group.cancel_scope.cancel()
    must(token and len(peer.logs) >= 2, f"token {token}, logs {peer.logs}")
    async with peer.bare_client(session) as other:
        result = await peer.call_with(other, "errand", arguments, token, None)
    must(text_of(result) == f"{STEPS} steps are done", result)
    steps = [log["data"]["step"] for log in peer.logs]
    must(steps == [1, 2, 3, 4, 5, 6], f"heard of the steps {steps}")


async def run_errand(peer, lets_go, on_progress):
    if peer.is_classic:
        await peer.set_level("info")
    peer.logs.clear()
    meta = None if peer.is_classic else {LOG_LEVEL_KEY: "info"}
    arguments = {"steps": STEPS, "delay_ms": 120, "hang_up": lets_go}
    result = await peer.call("errand", arguments, meta, on_progress)
    must(text_of(result) == f"{STEPS} steps are done", result)
    steps = [log["data"]["step"] for log in peer.logs]
    must(steps == [1, 2, 3, 4, 5, 6], f"heard of the steps {steps}")


CHECKS = (
    elicit_form,
    elicit_decline,
    elicit_later,
    elicit_url,
    sampling,
    roots,
    resource_update,
    tools_list_changed,
    hang_up,
)
RESUMING_CHECKS = (cut, resumption_token)
