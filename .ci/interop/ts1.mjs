// The TypeScript SDK 1.x: initialize, a session, the GET stream; or with `sse` the transport of
// 2024-11-05, which it keeps for old servers. ts1.mjs URL [sse]

import { createRequire } from 'node:module';
import { checkAll } from './checks.mjs';
import { recorder } from './harness.mjs';

const require = createRequire(new URL('../work/', import.meta.url));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { SSEClientTransport } = require('@modelcontextprotocol/sdk/client/sse.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const types = require('@modelcontextprotocol/sdk/types.js');

const [url, mode] = process.argv.slice(2);
const isSse = mode === 'sse';
const capabilities = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };
const schemas = {
    'elicitation/create': types.ElicitRequestSchema,
    'sampling/createMessage': types.CreateMessageRequestSchema,
    'roots/list': types.ListRootsRequestSchema,
    'notifications/message': types.LoggingMessageNotificationSchema,
    'notifications/resources/updated': types.ResourceUpdatedNotificationSchema,
    'notifications/tools/list_changed': types.ToolListChangedNotificationSchema,
};

function peerOf(http, sessionId) {
    const client = new Client({ name: 'interop-ts1', version: '1.0.0' }, { capabilities });
    const transport = isSse
        ? new SSEClientTransport(new URL('/sse', url), { fetch: http.fetch })
        : new StreamableHTTPClientTransport(new URL(url), { fetch: http.fetch, sessionId });
    const onNotification = (method, callback) =>
        client.setNotificationHandler(schemas[method], ({ params }) => void callback(params));
    return {
        client,
        transport,
        http,
        isClassic: true,
        isSse,
        connect: () => client.connect(transport),
        version: () => (isSse ? transport._protocolVersion : transport.protocolVersion),
        callTool: (params, options) => client.callTool(params, types.CallToolResultSchema, options),
        onRequest: (method, answer) => client.setRequestHandler(schemas[method], ({ params }) => answer(params)),
        onNotification,
        onLog: callback => onNotification('notifications/message', callback),
        another: session => peerOf(recorder(), session),
        async close() {
            if (!isSse) await transport.terminateSession();
            await client.close();
        },
    };
}

await checkAll(isSse ? 'ts1-sse' : 'ts1', url, peerOf(recorder()));
