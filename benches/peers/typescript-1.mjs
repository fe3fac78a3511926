// An echo server on the official TypeScript SDK, version 1.
//
// Usage: typescript-1.mjs json|sessions TOOLS. Its first line of output is its URL; it ends with
// its standard input.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

const [mode, tools] = [process.argv[2], Number(process.argv[3])];

const text = { text: z.string().describe('What to repeat') };
const search = {
    query: z.string().describe('What to look for'),
    limit: z.number().int().min(1).max(100).optional(),
};

const filler = { description: 'Stands in the listing and is not called', inputSchema: search };

// A server with `echo` and as many tools beside it as make up the number.
function server() {
    const server = new McpServer({ name: 'bench', version: '1.0.0' });
    const echo = { description: 'Repeats a text', inputSchema: text };
    server.registerTool('echo', echo, ({ text }) => ({ content: [{ type: 'text', text }] }));
    for (let number = 1; number < tools; number++) {
        const name = `tool_${String(number).padStart(2, '0')}`;
        server.registerTool(name, filler, () => ({ content: [] }));
    }
    return server;
}

const sessions = new Map();

// The transport of the request's session, or a new one for a client that has none.
async function transport(request) {
    const known = sessions.get(request.headers['mcp-session-id']);
    if (known) return known;
    const opened = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: id => sessions.set(id, opened),
        onsessionclosed: id => sessions.delete(id),
    });
    await server().connect(opened);
    return opened;
}

// A transport without sessions serves one request.
async function single(response) {
    const opened = new StreamableHTTPServerTransport({
        sessionIdGenerator: undefined,
        enableJsonResponse: true,
    });
    const connected = server();
    response.on('close', () => connected.close());
    await connected.connect(opened);
    return opened;
}

const listener = createServer(async (request, response) => {
    const opened = mode === 'json' ? await single(response) : await transport(request);
    await opened.handleRequest(request, response);
});
listener.listen(0, '127.0.0.1', () => {
    console.log(`http://127.0.0.1:${listener.address().port}/mcp`);
});
process.stdin.on('end', () => process.exit(0)).resume();
