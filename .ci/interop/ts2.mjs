// The TypeScript SDK 2.x. ts2.mjs URL MODE, with the modes `legacy`, `auto` and `2026-07-28`.

import { createRequire } from 'node:module';
import { checkAll } from './checks.mjs';
import { recorder } from './harness.mjs';

const require = createRequire(new URL('../work/', import.meta.url));
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');

const [url, mode] = process.argv.slice(2);
const options = {
    legacy: {},
    auto: { versionNegotiation: { mode: 'auto' } },
    '2026-07-28': { versionNegotiation: { mode: { pin: '2026-07-28' } } },
}[mode];
const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };

function peerOf(http, sessionId) {
    const client = new Client({ name: 'interop-ts2', version: '1.0.0' }, { capabilities, ...options });
    const transport = new StreamableHTTPClientTransport(new URL(url), { fetch: http.fetch, sessionId });
    const onNotification = (method, callback) =>
        client.setNotificationHandler(method, ({ params }) => void callback(params));
    return {
        client,
        transport,
        http,
        isClassic: mode === 'legacy',
        connect: () => client.connect(transport),
        version: () => client.getNegotiatedProtocolVersion(),
        callTool: (params, callOptions) => client.callTool(params, callOptions),
        onRequest: (method, answer) => client.setRequestHandler(method, ({ params }) => answer(params)),
        onNotification,
        onLog: callback => onNotification('notifications/message', callback),
        another: session => peerOf(recorder(), session),
        async close() {
            if (mode === 'legacy') await transport.terminateSession();
            await client.close();
        },
    };
}

await checkAll(`ts2-${mode}`, url, peerOf(recorder()));
