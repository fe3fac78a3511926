// The TypeScript SDK 2.x. ts2.mjs URL MODE, with the modes `legacy`, `auto` and `2026-07-28`.

import { createRequire } from 'node:module';
import { checkAll, recorder } from './checks.mjs';

const require = createRequire(new URL('../work/', import.meta.url));
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');

const [url, mode] = process.argv.slice(2);
const options = {
    legacy: {},
    auto: { versionNegotiation: { mode: 'auto' } },
    '2026-07-28': { versionNegotiation: { mode: { pin: '2026-07-28' } } },
}[mode];
const { seen, fetch } = recorder();
const client = new Client({ name: 'interop-ts2', version: '1.0.0' }, options);
const transport = new StreamableHTTPClientTransport(new URL(url), { fetch });

await checkAll(`ts2-${mode}`, url, {
    client,
    seen,
    isClassic: mode === 'legacy',
    connect: () => client.connect(transport),
    version: () => client.getNegotiatedProtocolVersion(),
    callTool: (params, callOptions) => client.callTool(params, callOptions),
    onLog: callback => client.setNotificationHandler('notifications/message', ({ params }) => callback(params)),
    async close() {
        if (mode === 'legacy') await transport.terminateSession();
        await client.close();
    },
});
