// The checks that each TypeScript client makes against examples/everything. One that fails does
// not keep the others from running, except for `connect`.

import { setTimeout as sleep } from 'node:timers/promises';

import { begin, check, end, must, pages, refused, textOf, until } from './harness.mjs';
import { checkAsking, checkChanges, checkResuming } from './live.mjs';

const logLevelKey = 'io.modelcontextprotocol/logLevel';

/**
 * Runs every check with a client and ends the process.
 *
 * `peer.client` has the client's own `listTools`, `getPrompt` and so on; `peer` has what the SDKs
 * spell differently: `connect`, `version`, `callTool(params, options)`, `onLog(callback)`,
 * `onRequest(method, answer)`, `onNotification(method, callback)`, `close`, and in the classic era
 * `another(session)`, which is a second client. `peer.isClassic` tells the era it must have
 * negotiated, `peer.isSse` that its session is that of one stream, `peer.http` is the recorder of
 * its requests.
 */
export async function checkAll(name, url, peer) {
    begin(name);
    if (await check('connect', () => connect(peer))) {
        await checkTools(peer);
        await checkResources(peer);
        await checkPrompts(peer);
        await checkLogs(peer);
        if (peer.isClassic) await check('ping', () => peer.client.ping());
        await checkLoad(peer);
        await checkAsking(peer);
        await checkChanges(peer);
        await checkResuming(peer);
        await check('close', () => close(peer, url));
        await check('http-statuses', () => statuses(peer));
    }
    end();
}

async function connect(peer) {
    await peer.connect();
    const version = peer.isClassic ? '2025-11-25' : '2026-07-28';
    must(peer.version() === version, `negotiated ${peer.version()}`);
    must(peer.client.getServerVersion()?.name, 'the server has no name');
    const capabilities = peer.client.getServerCapabilities();
    for (const key of ['tools', 'resources', 'prompts', 'completions', 'logging']) {
        must(capabilities[key], `no ${key} in ${JSON.stringify(capabilities)}`);
    }
    const sessions = peer.http.seen.filter(entry => entry.session);
    must(Boolean(sessions.length) === peer.isClassic, `${sessions.length} requests of ${peer.http.seen.length} in a session`);
}

async function checkTools(peer) {
    const call = (name, args = {}, options = {}) => peer.callTool({ name, arguments: args }, options);

    await check('list-tools', async () => {
        const tools = await pages(params => peer.client.listTools(params), 'tools');
        const names = tools.map(tool => tool.name);
        must(new Set(names).size === names.length, `twice in ${names}`);
        for (const tool of ['echo', 'add', 'slow_count', 'fail', 'log_messages', 'all_content']) {
            must(names.includes(tool), `no ${tool} in ${names}`);
        }
        must(tools.find(tool => tool.name === 'add').outputSchema?.properties?.sum, 'add has no output schema');
    });
    await check('echo', async () => {
        const result = await call('echo', { text: 'hello' });
        must(textOf(result) === 'hello' && !result.isError, result);
    });
    await check('echo-unicode', async () => {
        const text = 'line\nbreak "quote" \u00e9 \u{1f3a1} \u0000 \u2028 end';
        must(textOf(await call('echo', { text })) === text, 'came back different');
    });
    await check('echo-large', async () => {
        const text = 'wheel '.repeat(40_000);
        must(textOf(await call('echo', { text })) === text, 'came back different');
    });
    await check('structured-content', async () => {
        const result = await call('add', { a: 2, b: 40 });
        must(result.structuredContent?.sum === 42, result);
    });
    await check('progress', async () => {
        const progress = [];
        const onprogress = update => progress.push({ ...update, at: Date.now() });
        const result = await call('slow_count', { steps: 5, delay_ms: 60 }, { onprogress });
        const done = Date.now();
        must(textOf(result) === 'counted to 5', result);
        must(progress.length >= 2, `${progress.length} notifications`);
        must(progress.every((update, i) => !i || update.progress > progress[i - 1].progress), progress);
        must(done - progress[0].at >= 60, 'all progress came with the result');
    });
    await check('tool-error', async () => {
        const result = await call('fail');
        must(result.isError === true && textOf(result), result);
    });
    await check('tool-unknown', async () => {
        const error = await refused(peer, () => call('no_such_tool'));
        must(error.code === -32602, `${error.code} ${error.message}`);
    });
    await check('tool-bad-arguments', async () => {
        const result = await call('echo', { text: 7 });
        must(result.isError === true, result);
    });
    await check('all-content', async () => {
        const { content } = await call('all_content');
        const types = content.map(block => block.type).sort();
        must(`${types}` === 'audio,image,resource,resource_link,text', types);
    });
}

async function checkResources(peer) {
    const { client, isClassic } = peer;

    await check('list-resources', async () => {
        const uris = (await pages(params => client.listResources(params), 'resources')).map(resource => resource.uri);
        for (const uri of ['demo://text/readme', 'demo://blob/pixel']) must(uris.includes(uri), uris);
    });
    await check('read-text', async () => {
        const [content] = (await client.readResource({ uri: 'demo://text/readme' })).contents;
        must(content.uri === 'demo://text/readme' && content.text, content);
    });
    await check('read-blob', async () => {
        const [content] = (await client.readResource({ uri: 'demo://blob/pixel' })).contents;
        must(content.mimeType === 'image/png', content);
        must(Buffer.from(content.blob, 'base64').toString('latin1').startsWith('\x89PNG'), content);
    });
    await check('read-unknown', async () => {
        const error = await refused(peer, () => client.readResource({ uri: 'demo://no/such' }));
        // The 2.x client turns -32002 into an error of its own with the newer code; what it keeps of
        // the wire in both eras is the URI in the error's data.
        const codes = isClassic ? [-32002, -32602] : [-32602];
        must(codes.includes(error.code), `${error.code} ${error.message}`);
        must(error.data?.uri === 'demo://no/such', JSON.stringify(error.data));
    });
    await check('list-templates', async () => {
        const templates = await pages(params => client.listResourceTemplates(params), 'resourceTemplates');
        must(templates.some(template => template.uriTemplate === 'demo://item/{id}'), templates);
    });
    await check('read-template', async () => {
        const [content] = (await client.readResource({ uri: 'demo://item/42' })).contents;
        must(content.uri === 'demo://item/42' && content.text.includes('42'), content);
    });
}

async function checkPrompts(peer) {
    const { client } = peer;
    const promptText = prompt => prompt.messages.map(message => message.content.text).join('\n');

    await check('list-prompts', async () => {
        const prompts = await pages(params => client.listPrompts(params), 'prompts');
        const greet = prompts.find(prompt => prompt.name === 'greet');
        const required = Object.fromEntries(greet.arguments.map(argument => [argument.name, argument.required ?? false]));
        must(required.name === true && required.tone === false, required);
        must(prompts.some(prompt => prompt.name === 'plain'), prompts);
    });
    await check('get-prompt', async () => {
        const prompt = await client.getPrompt({ name: 'greet', arguments: { name: 'Ada', tone: 'formal' } });
        must(promptText(prompt).includes('Ada'), prompt);
    });
    await check('get-prompt-plain', async () => {
        must(promptText(await client.getPrompt({ name: 'plain' })), 'no text');
    });
    await check('prompt-missing-argument', async () => {
        const error = await refused(peer, () => client.getPrompt({ name: 'greet', arguments: {} }));
        must(error.code === -32602, `${error.code} ${error.message}`);
    });
    await check('completion', async () => {
        const complete = async value => {
            const ref = { type: 'ref/prompt', name: 'greet' };
            return (await client.complete({ ref, argument: { name: 'tone', value } })).completion.values;
        };
        const all = await complete('');
        must(all.length, 'no value');
        must((await complete(all[0].slice(0, 2))).includes(all[0]), `${all[0]} is not completed from its start`);
    });
}

async function checkLogs(peer) {
    const logs = [];
    peer.onLog(message => logs.push(message));
    const call = level =>
        peer.callTool({ name: 'log_messages', arguments: {}, ...(level && { _meta: { [logLevelKey]: level } }) }, {});

    await check('log-messages', async () => {
        if (peer.isClassic) await peer.client.setLoggingLevel('debug');
        const result = await call(peer.isClassic ? undefined : 'debug');
        must(textOf(result), result);
        must(await until(() => logs.length >= 3, 2_000), `${logs.length} messages`);
        must(logs.every(message => message.level && message.data !== undefined), logs);
    });
    await check('log-level', async () => {
        logs.length = 0;
        if (peer.isClassic) await peer.client.setLoggingLevel('emergency');
        await call();
        await until(() => logs.length, 200);
        must(!logs.length, `${logs.length} messages that were not asked for`);
    });
}

async function checkLoad(peer) {
    await check('parallel-calls', async () => {
        const texts = Array.from({ length: 20 }, (_, i) => `number ${i}`);
        const calls = texts.map(text => peer.callTool({ name: 'echo', arguments: { text } }, {}));
        const answers = (await Promise.all(calls)).map(textOf);
        must(`${answers}` === `${texts}`, answers);
    });
    await check('cancel', async () => {
        const cancel = new AbortController();
        const options = { signal: cancel.signal, onprogress: () => cancel.abort('changed my mind') };
        const params = { name: 'slow_count', arguments: { steps: 100, delay_ms: 50 } };
        await refused(peer, () => peer.callTool(params, options));
        must(cancel.signal.aborted, 'it ended before it was cancelled');
        must(textOf(await peer.callTool({ name: 'echo', arguments: { text: 'still here' } }, {})) === 'still here', 'no echo');
    });
}

async function close(peer, url) {
    const session = peer.http.seen.find(entry => entry.session)?.session;
    await peer.close();
    const deletes = peer.http.seen.filter(entry => entry.method === 'DELETE');
    if (!peer.isClassic) return must(!deletes.length && !session, deletes);
    if (peer.isSse) return closedWithItsStream(url, session);
    // The Python client takes any other status for a failure.
    must(deletes.length === 1 && [200, 204].includes(deletes[0].status), deletes);
    const response = await fetch(url, {
        method: 'POST',
        headers: {
            'content-type': 'application/json',
            accept: 'application/json, text/event-stream',
            'mcp-session-id': session,
            'mcp-protocol-version': '2025-11-25',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
    });
    await response.text();
    must(response.status === 404, `the closed session answers ${response.status}`);
}

/** The session of a stream that is gone is unknown, as soon as the server has noticed. */
async function closedWithItsStream(url, session) {
    const address = new URL(`/messages?sessionId=${session}`, url);
    let status;
    for (const end = Date.now() + 2_000; status !== 404 && Date.now() < end; await sleep(20)) {
        const headers = { 'content-type': 'application/json' };
        const body = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' });
        ({ status } = await fetch(address, { method: 'POST', headers, body }));
    }
    must(status === 404, `the closed session answers ${status}`);
}

/** Whatever was not refused on purpose went well for HTTP too, but that a GET stream is optional. */
function statuses({ http: { seen } }) {
    const isBad = ({ method, status, isRefusal }) => !isRefusal && status >= 300 && !(method === 'GET' && status === 405);
    const bad = seen.filter(isBad);
    must(!bad.length, bad);
}
