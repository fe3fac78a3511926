// What a client is asked, hears of changes, and collects after its connection is gone.

import { check, must, ownName, pages, textOf, until } from './harness.mjs';

const logLevelKey = 'io.modelcontextprotocol/logLevel';

export async function checkAsking(peer) {
    const call = (name, args = {}) => peer.callTool({ name, arguments: args }, {});

    await check('elicit-form', async () => {
        let asked;
        peer.onRequest('elicitation/create', params => {
            asked = params;
            return { action: 'accept', content: { name: 'Ada', guests: 3, kitchen: 'greek', outside: true } };
        });
        const text = textOf(await call('book_table'));
        must(text === 'A greek table outside for 3 is booked for Ada.', text);
        must(asked.requestedSchema.properties.guests.maximum === 12, asked);
        must(asked.requestedSchema.required.includes('name'), asked);
    });
    await check('elicit-decline', async () => {
        peer.onRequest('elicitation/create', () => ({ action: 'decline' }));
        const text = textOf(await call('book_table'));
        must(text === 'No table was booked.', text);
    });
    await check('elicit-later', async () => {
        // What the call has done before it asked is not done again: its state comes back.
        peer.onRequest('elicitation/create', () => ({ action: 'accept', content: { icing: true } }));
        const text = textOf(await call('bake_cake', { seconds: 0.2 }));
        must(text === 'a cake with icing', text);
    });
    await check('elicit-url', async () => {
        let visits = true;
        peer.onRequest('elicitation/create', async ({ mode, url }) => {
            must(mode === 'url', mode);
            if (visits) must((await fetch(url)).ok, `${url} is not there`);
            return { action: 'accept' };
        });
        must(textOf(await call('sign_in')) === 'You are signed in.', 'not signed in');
        visits = false;
        must(textOf(await call('sign_in')) === 'You are not signed in.', 'signed in without a visit');
    });
    await check('sampling', async () => {
        peer.onRequest('sampling/createMessage', ({ messages, maxTokens }) => {
            const [{ content }] = messages;
            const { text } = Array.isArray(content) ? content[0] : content;
            return { role: 'assistant', model: 'parrot', content: { type: 'text', text: `${text} ${maxTokens}` } };
        });
        const text = textOf(await call('ask_model', { prompt: 'polly' }));
        must(text === 'The model says: polly 100', text);
    });
    await check('roots', async () => {
        const roots = ['file:///home/ada', 'file:///srv/wheel'].map(uri => ({ uri, name: uri.slice(7) }));
        peer.onRequest('roots/list', () => ({ roots }));
        const text = textOf(await call('list_folders'));
        must(text === 'file:///home/ada\nfile:///srv/wheel', text);
    });
}

export async function checkChanges(peer) {
    const { client, isClassic } = peer;
    const clock = 'demo://clock';
    const call = (name, args) => peer.callTool({ name, arguments: args }, {});

    await check('resource-update', async () => {
        const updates = [];
        peer.onNotification('notifications/resources/updated', ({ uri }) => updates.push(uri));
        const read = async () => Number((await client.readResource({ uri: clock })).contents[0].text);
        const before = await read();
        const listening = isClassic ? undefined : await client.listen({ resourceSubscriptions: [clock] });
        if (isClassic) await client.subscribeResource({ uri: clock });
        must(await until(() => updates.length >= 2, 5_000), `${updates.length} updates`);
        must(updates.every(uri => uri === clock), updates);
        must((await read()) > before, 'it was updated and reads the same');
        if (isClassic) await client.unsubscribeResource({ uri: clock });
        await listening?.close();
    });
    await check('tools-list-changed', async () => {
        const name = `extra_${ownName()}`;
        let changes = 0;
        peer.onNotification('notifications/tools/list_changed', () => (changes += 1));
        const listening = isClassic ? undefined : await client.listen({ toolsListChanged: true });
        const names = async () => (await pages(params => client.listTools(params), 'tools')).map(tool => tool.name);
        must(!(await call('offer_tool', { name })).isError, 'it was not offered');
        must(await until(() => changes === 1, 5_000), `${changes} changes after one`);
        must((await names()).includes(name), `no ${name} in the list`);
        must(textOf(await call(name, {})) === `${name} at your service`, 'it does not answer');
        must(!(await call('withdraw_tool', { name })).isError, 'it was not withdrawn');
        must(await until(() => changes === 2, 5_000), `${changes} changes after two`);
        must(!(await names()).includes(name), `${name} is still in the list`);
        await listening?.close();
    });
}

export async function checkResuming(peer) {
    const { isClassic, isSse, http } = peer;
    const canResume = isClassic && !isSse;
    const steps = 6;
    const params = hangUp => ({
        name: 'errand',
        arguments: { steps, delay_ms: 120, hang_up: hangUp },
        ...(!isClassic && { _meta: { [logLevelKey]: 'info' } }),
    });
    const logged = [];
    const heard = ({ logger, data }) => logger === 'errand' && logged.push(data.step);
    const mustHaveAll = () => must(`${logged}` === '1,2,3,4,5,6', `heard of the steps ${logged}`);
    const resumes = first => http.seen.slice(first).filter(entry => entry.resumesAt);
    peer.onLog(heard);

    await check('hang-up', async () => {
        if (isClassic) await peer.client.setLoggingLevel('info');
        const first = http.seen.length;
        const progress = [];
        const onprogress = update => progress.push(update.progress);
        const result = await peer.callTool(params(true), { onprogress });
        must(textOf(result) === `${steps} steps are done`, result);
        must(`${progress}` === '1,2,3,4,5,6', `progress ${progress}`);
        mustHaveAll();
        must(Boolean(resumes(first).length) === canResume, http.seen.slice(first));
    });
    if (!canResume) return;
    await check('cut', async () => {
        const first = http.seen.length;
        logged.length = 0;
        http.cutAfter = 3;
        const result = await peer.callTool(params(false), {});
        must(textOf(result) === `${steps} steps are done`, result);
        mustHaveAll();
        must(resumes(first).length === 1, http.seen.slice(first));
    });
    await check('resumption-token', async () => {
        logged.length = 0;
        let resumptionToken;
        const one = peer.another();
        await one.connect();
        one.onLog(heard);
        const onresumptiontoken = token => (resumptionToken = token);
        const left = one.callTool(params(false), { onresumptiontoken }).catch(() => {});
        must(await until(() => logged.length >= 2, 5_000), 'the call said nothing');
        await one.client.close();
        await left;
        const other = peer.another(one.transport.sessionId);
        await other.connect();
        other.transport.setProtocolVersion('2025-11-25');
        other.onLog(heard);
        const result = await other.callTool(params(false), { resumptionToken });
        must(textOf(result) === `${steps} steps are done`, result);
        mustHaveAll();
        await other.close();
    });
}
