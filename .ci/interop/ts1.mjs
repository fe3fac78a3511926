// The TypeScript SDK 1.x: initialize, a session, the GET stream. ts1.mjs URL

import { createRequire } from 'node:module';
import { checkAll, recorder } from './checks.mjs';

const require = createRequire(new URL('../work/', import.meta.url));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { CallToolResultSchema, LoggingMessageNotificationSchema } = require('@modelcontextprotocol/sdk/types.js');

const url = process.argv[2];
const { seen, fetch } = recorder();
const client = new Client({ name: 'interop-ts1', version: '1.0.0' });
const transport = new StreamableHTTPClientTransport(new URL(url), { fetch });

await checkAll('ts1', url, {
    client,
    seen,
    isClassic: true,
    connect: () => client.connect(transport),
    version: () => transport.protocolVersion,
    callTool: (params, options) => client.callTool(params, CallToolResultSchema, options),
    onLog: callback => client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => callback(params)),
    async close() {
        await transport.terminateSession();
        await client.close();
    },
});
