// What every check is made of: a name, a limit on its time, and a line that says how it ended.

import { setTimeout as sleep } from 'node:timers/promises';

const checkMsMax = 20_000;
const pagesMax = 50;

let label = '';
let failed = 0;

/** Says whose checks these are, before the first one. */
export function begin(name) {
    label = name;
}

/** A name for things this client leaves with the server. */
export const ownName = () => label.replace(/[^a-z0-9]/g, '_');

/** Ends the process with what the checks came to. */
export function end() {
    process.exit(failed ? 1 : 0);
}

export async function check(name, run) {
    try {
        const late = new AbortController();
        await Promise.race([
            run(),
            sleep(checkMsMax, null, { signal: late.signal }).then(() => Promise.reject(new Error('timed out'))),
        ]).finally(() => late.abort());
        console.log(`ok ${label}/${name}`);
        return true;
    } catch (error) {
        failed += 1;
        console.log(`FAIL ${label}/${name}: ${String(error?.message ?? error).replace(/\s+/g, ' ').slice(0, 300)}`);
        return false;
    }
}

export function must(condition, why) {
    if (!condition) throw new Error(typeof why === 'string' ? why : JSON.stringify(why));
}

/** The error that a request is answered with; fails on an answer without one. */
export async function refused(peer, request) {
    const first = peer.http.seen.length;
    const result = await request().then(
        value => ({ value }),
        error => ({ error }),
    );
    for (const entry of peer.http.seen.slice(first)) entry.isRefusal = true;
    must(result.error, `answered ${JSON.stringify(result.value)}`);
    return result.error;
}

export async function until(condition, msMax) {
    for (const end = Date.now() + msMax; !condition() && Date.now() < end; ) await sleep(20);
    return condition();
}

/** Every item of a list, page by page. */
export async function pages(list, key) {
    const items = [];
    const cursors = new Set();
    for (let cursor; ; ) {
        const page = await list(cursor === undefined ? {} : { cursor });
        items.push(...page[key]);
        cursor = page.nextCursor;
        if (cursor === undefined) return items;
        must(!cursors.has(cursor), `cursor ${cursor} came twice`);
        must(cursors.add(cursor).size < pagesMax, `more than ${pagesMax} pages`);
    }
}

export const textOf = result => result.content[0]?.text;

/**
 * A fetch that remembers each request and the status it got. With `cutAfter` set to a number of
 * events, the connection of the next streamed tool call breaks behind them.
 */
export function recorder() {
    const recorder = { seen: [], cutAfter: undefined };
    recorder.fetch = async (input, init = {}) => {
        const headers = new Headers(init.headers);
        const posted = new URL(input).searchParams.get('sessionId');
        const entry = {
            method: init.method ?? 'GET',
            session: headers.get('mcp-session-id') ?? posted,
            resumesAt: headers.get('last-event-id'),
        };
        if (typeof init.body === 'string') entry.rpc = JSON.parse(init.body).method;
        recorder.seen.push(entry);
        const response = await fetch(input, init);
        entry.status = response.status;
        entry.session ??= response.headers.get('mcp-session-id');
        if (entry.rpc !== 'tools/call' || recorder.cutAfter === undefined) return response;
        const cut = cutBody(response, recorder.cutAfter);
        recorder.cutAfter = undefined;
        return cut;
    };
    return recorder;
}

/** A response whose body fails once so many events have been read. */
function cutBody(response, events) {
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    let text = '';
    const pull = async controller => {
        if (text.split('\n\n').length > events) {
            await reader.cancel();
            return controller.error(new TypeError('the connection was cut'));
        }
        const { value, done } = await reader.read();
        if (done) return controller.close();
        text += decoder.decode(value, { stream: true });
        controller.enqueue(value);
    };
    const cancel = reason => reader.cancel(reason);
    // Read on demand only: an error would take what nobody has read yet with it.
    const body = new ReadableStream({ pull, cancel }, { highWaterMark: 0 });
    const { status, headers } = response;
    return new Response(body, { status, headers });
}
