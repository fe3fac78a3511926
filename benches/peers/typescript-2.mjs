// An echo server on the official TypeScript SDK, version 2.
//
// Usage: typescript-2.mjs json|sessions TOOLS. Its first line of output is its URL; it ends with
// its standard input.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';

const [mode, tools] = [process.argv[2], Number(process.argv[3])];

const text = z.object({ text: z.string().describe('What to repeat') });
const search = z.object({
    query: z.string().describe('What to look for'),
    limit: z.number().int().min(1).max(100).optional(),
});

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
    const opened = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: id => sessions.set(id, opened),
        onsessionclosed: id => sessions.delete(id),
    });
    await server().connect(opened);
    return opened;
}

const single = toNodeHandler(createMcpHandler(server));

const listener = createServer(async (request, response) => {
    if (mode === 'json') return single(request, response);
    await (await transport(request)).handleRequest(request, response);
});
listener.listen(0, '127.0.0.1', () => {
    console.log(`http://127.0.0.1:${listener.address().port}/mcp`);
});
process.stdin.on('end', () => process.exit(0)).resume();
