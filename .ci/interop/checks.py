"""The checks that each Python client makes against examples/everything.

One that fails does not keep the others from running, except for `connect`.
"""

import asyncio
import base64
import sys
import time
from contextlib import AsyncExitStack

import anyio
import live
from kit import LOG_LEVEL_KEY, Checks, must, pages, plain, refused, text_of, until


def main(peer):
    sys.exit(asyncio.run(check_all(peer)))


async def check_all(peer):
    checks = Checks(peer)
    name = "connect"
    try:
        # The client's own tasks forbid a time limit here; the one for the whole process holds.
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(peer)
            await connected(peer)
            checks.ok(name)
            name = "close"
            resuming = live.RESUMING_CHECKS if peer.is_classic and not peer.is_sse else ()
            for check in CHECKS + (CLASSIC_CHECKS if peer.is_classic else ()) + resuming:
                await checks.run(check.__name__.replace("_", "-"), check, peer)
            if peer.can_cancel:
                await checks.run("cancel", cancel, peer)
        await closed(peer)
        checks.ok(name)
    except Exception as error:
        checks.fail(name, error)
    await checks.run("http-statuses", statuses, peer)
    return 1 if checks.failed else 0


async def connected(peer):
    version = "2025-11-25" if peer.is_classic else "2026-07-28"
    must(peer.version == version, f"negotiated {peer.version}")
    if peer.capabilities is not None:
        must(peer.server_info and peer.server_info.name, "the server has no name")
        capabilities = plain(peer.capabilities)
        for key in ("tools", "resources", "prompts", "completions", "logging"):
            must(key in capabilities, capabilities)
        must(any(entry["session"] for entry in peer.seen) == peer.is_classic, peer.seen)


async def list_tools(peer):
    tools = {tool["name"]: tool for tool in await pages(peer, "list_tools", "tools")}
    for name in ("echo", "add", "slow_count", "fail", "log_messages", "all_content"):
        must(name in tools, f"no {name} in {list(tools)}")
    must("sum" in tools["add"]["outputSchema"]["properties"], "add has no output schema")


async def echo(peer):
    result = await peer.call("echo", {"text": "hello"})
    must(text_of(result) == "hello" and not result.get("isError"), result)


async def echo_unicode(peer):
    text = 'line\nbreak "quote" \u00e9 \U0001f3a1 \0 \u2028 end'
    must(text_of(await peer.call("echo", {"text": text})) == text, "came back different")


async def echo_large(peer):
    text = "wheel " * 40_000
    must(text_of(await peer.call("echo", {"text": text})) == text, "came back different")


async def structured_content(peer):
    result = await peer.call("add", {"a": 2, "b": 40})
    must(result["structuredContent"]["sum"] == 42, result)


async def progress(peer):
    seen = []

    async def on_progress(progress, total, message):
        seen.append((progress, time.monotonic()))

    result = await peer.call("slow_count", {"steps": 5, "delay_ms": 60}, on_progress=on_progress)
    done = time.monotonic()
    must(text_of(result) == "counted to 5", result)
    must(len(seen) >= 2, f"{len(seen)} notifications")
    must(all(a < b for (a, _), (b, _) in zip(seen, seen[1:])), seen)
    must(done - seen[0][1] >= 0.06, "all progress came with the result")


async def tool_error(peer):
    result = await peer.call("fail", {})
    must(result["isError"] is True and text_of(result), result)


async def tool_unknown(peer):
    code = await refused(peer, peer.call("no_such_tool", {}))
    must(code == -32602, f"{code}")


async def tool_bad_arguments(peer):
    result = await peer.call("echo", {"text": 7})
    must(result["isError"] is True, result)


async def all_content(peer):
    result = await peer.call("all_content", {})
    types = sorted(block["type"] for block in result["content"])
    must(types == ["audio", "image", "resource", "resource_link", "text"], types)


async def list_resources(peer):
    uris = [resource["uri"] for resource in await pages(peer, "list_resources", "resources")]
    must({"demo://text/readme", "demo://blob/pixel"} <= set(uris), uris)


async def read_text(peer):
    content = (await peer.read("demo://text/readme"))["contents"][0]
    must(content["uri"] == "demo://text/readme" and content["text"], content)


async def read_blob(peer):
    content = (await peer.read("demo://blob/pixel"))["contents"][0]
    must(content["mimeType"] == "image/png", content)
    must(base64.b64decode(content["blob"]).startswith(b"\x89PNG"), content)


async def read_unknown(peer):
    code = await refused(peer, peer.read("demo://no/such"))
    must(code == (-32002 if peer.is_classic else -32602), f"{code}")


async def list_templates(peer):
    templates = await pages(peer, "list_resource_templates", "resourceTemplates")
    must("demo://item/{id}" in [template["uriTemplate"] for template in templates], templates)


async def read_template(peer):
    content = (await peer.read("demo://item/42"))["contents"][0]
    must(content["uri"] == "demo://item/42" and "42" in content["text"], content)


async def list_prompts(peer):
    prompts = {prompt["name"]: prompt for prompt in await pages(peer, "list_prompts", "prompts")}
    required = {argument["name"]: argument.get("required", False) for argument in prompts["greet"]["arguments"]}
    must(required == {"name": True, "tone": False}, required)
    must("plain" in prompts, list(prompts))


async def get_prompt(peer):
    messages = (await peer.prompt("greet", {"name": "Ada", "tone": "formal"}))["messages"]
    must(any("Ada" in message["content"]["text"] for message in messages), messages)


async def get_prompt_plain(peer):
    messages = (await peer.prompt("plain", None))["messages"]
    must(messages[0]["content"]["text"], messages)


async def prompt_missing_argument(peer):
    code = await refused(peer, peer.prompt("greet", {}))
    must(code == -32602, f"{code}")


async def completion(peer):
    async def complete(value):
        return (await peer.complete("greet", {"name": "tone", "value": value}))["completion"]["values"]

    values = await complete("")
    must(values, "no value")
    must(values[0] in await complete(values[0][:2]), f"{values[0]} is not completed from its start")


async def log_messages(peer):
    if peer.is_classic:
        await peer.set_level("debug")
    meta = None if peer.is_classic else {LOG_LEVEL_KEY: "debug"}
    result = await peer.call("log_messages", {}, meta)
    must(text_of(result), result)
    await until(lambda: len(peer.logs) >= 3, 2)
    must(len(peer.logs) >= 3, f"{len(peer.logs)} messages")
    must(all(log["level"] and "data" in log for log in peer.logs), peer.logs)


async def log_level(peer):
    peer.logs.clear()
    if peer.is_classic:
        await peer.set_level("emergency")
    await peer.call("log_messages", {})
    await until(lambda: peer.logs, 0.2)
    must(not peer.logs, f"{len(peer.logs)} messages that were not asked for")


async def parallel_calls(peer):
    texts = [f"number {i}" for i in range(20)]
    results = await asyncio.gather(*(peer.call("echo", {"text": text}) for text in texts))
    must([text_of(result) for result in results] == texts, results)


async def ping(peer):
    await peer.ping()


async def cancel(peer):
    with anyio.CancelScope() as scope:

        async def on_progress(progress, total, message):
            scope.cancel()

        await peer.call("slow_count", {"steps": 100, "delay_ms": 50}, on_progress=on_progress)
    must(scope.cancelled_caught, "it ended before it was cancelled")
    must(text_of(await peer.call("echo", {"text": "still here"})) == "still here", "no echo")


async def closed(peer):
    deletes = [entry for entry in peer.seen if entry["method"] == "DELETE"]
    if not peer.is_classic:
        must(not deletes and not any(entry["session"] for entry in peer.seen), peer.seen)
        return
    if peer.is_sse:
        must(not deletes, deletes)
        return await closed_with_its_stream(peer)
    # This client takes any other status for a failure.
    must([entry["status"] in (200, 204) for entry in deletes] == [True], deletes)


async def closed_with_its_stream(peer):
    """The session of a stream that is gone is unknown, as soon as the server has noticed."""
    session = next(entry["session"] for entry in peer.seen if entry["session"])
    body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    end = time.monotonic() + 2
    while (status := await peer.post_stale(session, body)) != 404 and time.monotonic() < end:
        await anyio.sleep(0.02)
    must(status == 404, f"the closed session answers {status}")


async def statuses(peer):
    """Whatever was not refused on purpose went well for HTTP too, but that a GET stream is optional."""
    bad = [
        entry
        for entry in peer.seen
        if "refusal" not in entry
        and entry["status"] >= 300
        and not (entry["method"] == "GET" and entry["status"] == 405)
    ]
    must(peer.seen and not bad, bad)


CHECKS = (
    list_tools,
    echo,
    echo_unicode,
    echo_large,
    structured_content,
    progress,
    tool_error,
    tool_unknown,
    tool_bad_arguments,
    all_content,
    list_resources,
    read_text,
    read_blob,
    read_unknown,
    list_templates,
    read_template,
    list_prompts,
    get_prompt,
    get_prompt_plain,
    prompt_missing_argument,
    completion,
    log_messages,
    log_level,
    parallel_calls,
    *live.CHECKS,
)
CLASSIC_CHECKS = (ping,)
