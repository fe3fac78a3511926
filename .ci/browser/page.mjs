// Runs in the browser, on a page of whichever origin served it: the calls a page makes with nothing
// but `fetch`, and what a page that is not allowed may try. Tells the driver how each of them went.

const { url, role, session: foreignSession, tool } = await (await fetch('/plan')).json();
const checkMsMax = 15_000;

const report = (path, body) => fetch(path, { method: 'POST', body: JSON.stringify(body) });

async function check(name, run) {
    let timer;
    const late = new Promise((_, reject) => (timer = setTimeout(reject, checkMsMax, new Error('timed out'))));
    const why = await Promise.race([run(), late]).then(
        () => undefined,
        error => `${error.name}: ${error.message}`,
    );
    clearTimeout(timer);
    await report('/report', { name, why });
}

function must(condition, why) {
    if (!condition) throw new Error(typeof why === 'string' ? why : JSON.stringify(why));
}

let lastId = 0;

const both = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };

/** A message to the endpoint; a request gets an id of its own unless it is a notification. */
function post(method, params, headers, options = {}) {
    const id = method.startsWith('notifications/') ? {} : { id: (lastId += 1) };
    const body = JSON.stringify({ jsonrpc: '2.0', ...id, method, params });
    return fetch(url, { method: 'POST', headers: { ...both, ...headers }, body, ...options });
}

const classic = session => ({ 'Mcp-Session-Id': session, 'MCP-Protocol-Version': '2025-11-25' });

const hello = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'page', version: '1' },
};

/** A request of the modern era, with the headers that repeat what its body says. */
function modern(method, params, headers, options) {
    const _meta = {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {},
        ...params._meta,
    };
    const own = { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': method };
    if (params.name) own['Mcp-Name'] = params.name;
    return post(method, { ...params, _meta }, { ...own, ...headers }, options);
}

/** The events of a response as they come, each with the time it was read at. */
async function* events(response) {
    must(response.headers.get('content-type').startsWith('text/event-stream'), 'this is no stream');
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let text = ''; ; ) {
        const { value, done } = await reader.read();
        if (done) return;
        text += value;
        for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
            const lines = text.slice(0, end).split('\n');
            const field = name => lines.find(line => line.startsWith(`${name}:`))?.slice(name.length + 1).trim();
            const data = field('data');
            yield { id: field('id'), message: data ? JSON.parse(data) : undefined, at: performance.now() };
        }
    }
}

/** Reads events until one of them will do. */
async function first(stream, isWanted) {
    for (;;) {
        const { value, done } = await stream.next();
        must(!done, 'the stream ended');
        if (value.message && isWanted(value.message)) return value;
    }
}

const textOf = ({ result }) => result?.content[0]?.text;
const slowCount = { name: 'slow_count', arguments: { steps: 6, delay_ms: 100 }, _meta: { progressToken: 1 } };

/** A streamed call is read while it runs, not when it is over. */
async function mustStream(response) {
    const progress = [];
    for await (const { message, at } of events(response)) {
        if (message?.method === 'notifications/progress') progress.push({ at, step: message.params.progress });
        if (!message?.result) continue;
        must(textOf(message) === 'counted to 6', message);
        must(`${progress.map(({ step }) => step)}` === '1,2,3,4,5,6', progress);
        return must(at - progress[0].at >= 300, `all progress came within ${at - progress[0].at} ms of the result`);
    }
    throw new Error('the stream ended without a result');
}

async function allowed() {
    let session;
    const call = (name, args, meta) =>
        post('tools/call', { name, arguments: args, ...(meta && { _meta: meta }) }, classic(session));
    const listen = (headers, signal) =>
        fetch(url, { headers: { Accept: 'text/event-stream', ...classic(session), ...headers }, signal });

    await check('initialize', async () => {
        const response = await post('initialize', hello, {});
        const { result } = await response.json();
        must(result.protocolVersion === '2025-11-25', result);
        session = response.headers.get('Mcp-Session-Id');
        must(/^[0-9a-f]{32}$/.test(session), `the page sees the session ${session}`);
        const ready = await post('notifications/initialized', {}, classic(session));
        must(ready.status === 202, `initialized is answered with ${ready.status}`);
    });
    await check('call', async () => {
        const { result } = await (await call('add', { a: 2, b: 40 })).json();
        must(result.structuredContent.sum === 42, result);
    });
    await check('error', async () => {
        const response = await post('tools/list', {}, classic('0'.repeat(32)));
        must(response.status === 404, `an unknown session is answered with ${response.status}`);
        must((await response.json()).error.code < 0, 'there is no error');
    });
    await check('stream', async () => mustStream(await post('tools/call', slowCount, classic(session))));
    await check('get-stream', async () => {
        const leave = new AbortController();
        const stream = events(await listen({}, leave.signal));
        must(!(await (await call('offer_tool', { name: tool })).json()).result.isError, 'it was not offered');
        await first(stream, ({ method }) => method === 'notifications/tools/list_changed');
        must(textOf(await (await call(tool, {})).json()) === `${tool} at your service`, 'it does not answer');
        await post('resources/subscribe', { uri: 'demo://clock' }, classic(session));
        const { message } = await first(stream, ({ method }) => method === 'notifications/resources/updated');
        must(message.params.uri === 'demo://clock', message);
        leave.abort();
    });
    await check('resume', async () => {
        const leave = new AbortController();
        const params = { name: 'errand', arguments: { steps: 6, delay_ms: 100, hang_up: false }, _meta: { progressToken: 7 } };
        const response = await post('tools/call', params, classic(session), { signal: leave.signal });
        const steps = [];
        let last;
        const keep = ({ id, message }) => {
            last = id ?? last;
            if (message?.method === 'notifications/progress') steps.push(message.params.progress);
        };
        for await (const event of events(response)) {
            keep(event);
            if (steps.length === 2) break;
        }
        leave.abort();
        for await (const event of events(await listen({ 'Last-Event-ID': last }))) {
            keep(event);
            if (event.message?.result) break;
        }
        must(`${steps}` === '1,2,3,4,5,6', `saw the steps ${steps}`);
    });
    await check('end-session', async () => {
        const ended = await fetch(url, { method: 'DELETE', headers: classic(session) });
        must(ended.ok, `ending is answered with ${ended.status}`);
        must((await post('tools/list', {}, classic(session))).status === 404, 'the session goes on');
    });
    await check('modern-call', async () => {
        const params = { name: 'weather', arguments: { region: 'Utrecht' } };
        const response = await modern('tools/call', params, { 'Mcp-Param-Region': 'Utrecht' });
        must(!response.headers.has('Mcp-Session-Id'), 'there is a session');
        const answer = await response.json();
        must(textOf(answer) === 'It is raining in Utrecht.', answer);
    });
    await check('modern-error', async () => {
        const params = { name: 'weather', arguments: { region: 'Utrecht' } };
        const response = await modern('tools/call', params, { 'Mcp-Param-Region': 'Delft' });
        must(response.status === 400, `another region in the header is answered with ${response.status}`);
        must((await response.json()).error.code < 0, 'there is no error');
    });
    await check('modern-stream', async () => mustStream(await modern('tools/call', slowCount, {})));
    await check('modern-subscription', async () => {
        const leave = new AbortController();
        const wanted = { notifications: { resourceSubscriptions: ['demo://clock'] } };
        const stream = events(await modern('subscriptions/listen', wanted, {}, { signal: leave.signal }));
        const { message } = await first(stream, () => true);
        must(message.method === 'notifications/subscriptions/acknowledged', message);
        await first(stream, ({ method }) => method === 'notifications/resources/updated');
        leave.abort();
    });
    await check('own-page', async () => {
        const about = await fetch(new URL('/about', url));
        must((await about.text()).includes('MCP server'), `answered with ${about.status}`);
    });
}

/** Fails unless the browser keeps the answer from the page. */
async function mustFail(request) {
    const answer = await request.then(
        response => response,
        error => error,
    );
    must(answer instanceof TypeError, `the page got an answer with status ${answer.status}`);
}

/** What a page tries that is not allowed; that nothing of it was done is for the driver to see. */
async function refused() {
    const offer = { name: 'offer_tool', arguments: { name: tool } };
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: offer });
    const plain = { method: 'POST', headers: { 'Content-Type': 'text/plain' }, body };

    await check('initialize', () => mustFail(post('initialize', hello, {})));
    await check('call', () => mustFail(post('tools/call', offer, classic(foreignSession))));
    await check('modern-call', () => mustFail(modern('tools/call', offer, {})));
    await check('get-stream', () =>
        mustFail(fetch(url, { headers: { Accept: 'text/event-stream', ...classic(foreignSession) } })));
    await check('end-session', () =>
        mustFail(fetch(url, { method: 'DELETE', headers: classic(foreignSession) })));
    await check('own-page', () => mustFail(fetch(new URL('/about', url))));
    // A browser asks nobody before it sends these.
    await check('plain-post', () => mustFail(fetch(url, plain)));
    await check('blind-post', async () => {
        const response = await fetch(url, { ...plain, mode: 'no-cors' });
        must(response.type === 'opaque' && !(await response.text()), 'the page sees the answer');
    });
    await check('event-source', async () => {
        const source = new EventSource(url);
        const event = await new Promise(resolve => (source.onopen = source.onerror = resolve));
        source.close();
        must(event.type === 'error', 'the stream is open');
    });
    await check('form', async () => {
        const frame = Object.assign(document.createElement('iframe'), { name: 'answer' });
        const form = Object.assign(document.createElement('form'), {
            method: 'post', action: url, enctype: 'text/plain', target: 'answer',
        });
        // A form has a name, an equals sign and a value; together they are the message.
        const [name, value] = [body.slice(0, -1).concat(',"pad":"'), '"}'];
        form.append(Object.assign(document.createElement('input'), { name, value }));
        document.body.append(frame, form);
        const loaded = new Promise(resolve => (frame.onload = resolve));
        form.submit();
        await loaded;
    });
}

await (role === 'allowed' ? allowed() : refused());
await report('/done', {});
