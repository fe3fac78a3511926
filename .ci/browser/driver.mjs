// Serves a page to headless Chromium under several origins, one after the other, and sees what the
// page reports and what the MCP server did meanwhile. driver.mjs URL SERVER_LOG WORK_FOLDER

import { spawn } from 'node:child_process';
import { mkdirSync, openSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';

const [url, serverLog, work] = process.argv.slice(2);
const pageMsMax = 90_000;
const reportBytesMax = 10_000;

let passed = 0;
let failed = 0;

function tell(name, why) {
    if (why === undefined) passed += 1;
    else failed += 1;
    console.log(why === undefined ? `ok ${name}` : `FAIL ${name}: ${why.replace(/\s+/g, ' ').slice(0, 300)}`);
}

/** What the page that is being shown is to do, and who waits for it. */
let shown;

const files = {
    '/': ['page.html', 'text/html; charset=utf-8'],
    '/page.mjs': ['page.mjs', 'text/javascript; charset=utf-8'],
};

const pages = createServer(async (request, response) => {
    if (request.method === 'POST') {
        let text = '';
        for await (const chunk of request) text = (text + chunk).slice(0, reportBytesMax);
        response.end();
        if (request.url === '/done') return shown?.done();
        const { name, why } = JSON.parse(text);
        return shown?.reported(name, why);
    }
    if (request.url === '/plan') return response.end(JSON.stringify(shown.plan));
    const [file, type] = files[request.url] ?? [];
    if (!file) return response.writeHead(404).end();
    response.writeHead(200, { 'Content-Type': type, 'Cache-Control': 'no-store' });
    response.end(readFileSync(new URL(file, import.meta.url)));
});

let browser;

/** The browser has processes of its own, all in one group. */
function endBrowser() {
    if (browser?.pid !== undefined && browser.exitCode === null) process.kill(-browser.pid, 'SIGKILL');
}

for (const signal of ['SIGINT', 'SIGTERM']) {
    process.on(signal, () => {
        endBrowser();
        process.exit(1);
    });
}

/** Shows the page under an origin until it is done, in a browser of its own. */
async function show(label, address, plan) {
    const profile = `${work}/profile`;
    rmSync(profile, { recursive: true, force: true });
    const log = openSync(`${work}/chromium-${label}.log`, 'w');
    const flags = [
        '--headless=new',
        '--disable-gpu',
        '--disable-dev-shm-usage',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
        '--no-first-run',
        '--no-default-browser-check',
        // The names are of this test alone, and have no certificates.
        '--disable-features=HttpsUpgrades,HttpsFirstBalancedModeAutoEnable',
        `--host-resolver-rules=MAP *.test 127.0.0.1:${pages.address().port}`,
        `--user-data-dir=${profile}`,
    ];
    if (process.getuid() === 0) flags.push('--no-sandbox');
    let reports = 0;
    const finished = new Promise((resolve, reject) => {
        shown = {
            plan,
            done: resolve,
            reported(name, why) {
                reports += 1;
                tell(`${label}/${name}`, why);
            },
        };
        setTimeout(reject, pageMsMax, new Error('the page was not done in time')).unref();
    });
    browser = spawn('chromium', [...flags, address], { detached: true, stdio: ['ignore', log, log] });
    const ended = new Promise(resolve => browser.on('close', resolve).on('error', resolve));
    try {
        await Promise.race([finished, ended.then(() => Promise.reject(new Error('the browser ended')))]);
        if (!reports) throw new Error('the page reported nothing');
    } catch (error) {
        tell(`${label}/page`, `${error.message}; see ${work}/chromium-${label}.log`);
    }
    endBrowser();
    await ended;
    shown = undefined;
}

const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };

/** A message to the MCP server from here, which is no page and has no origin. */
async function send(message, session) {
    const own = session && { 'Mcp-Session-Id': session, 'MCP-Protocol-Version': '2025-11-25' };
    const body = JSON.stringify({ jsonrpc: '2.0', ...message });
    const response = await fetch(url, { method: 'POST', headers: { ...headers, ...own }, body });
    const text = await response.text();
    return { session: response.headers.get('mcp-session-id'), answer: text ? JSON.parse(text) : undefined };
}

async function openSession() {
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'driver', version: '1' } };
    const { session } = await send({ id: 1, method: 'initialize', params });
    await send({ method: 'notifications/initialized' }, session);
    return session;
}

/** Every tool there is; fails if the session has ended. */
async function toolNames(session) {
    const names = [];
    for (let cursor; ; ) {
        const { answer } = await send({ id: 2, method: 'tools/list', params: { cursor } }, session);
        if (!answer.result) throw new Error(`the list is answered with ${JSON.stringify(answer)}`);
        names.push(...answer.result.tools.map(tool => tool.name));
        cursor = answer.result.nextCursor;
        if (cursor === undefined) return names;
    }
}

/** What the server logged since it had logged so much. */
const logged = since => readFileSync(serverLog, 'utf8').slice(since).split('\n');

/** How each HTTP response went, as its method and status. */
const statuses = lines => lines.flatMap(line => /method=(\S+) .*status=(\d+)/.exec(line)?.slice(1).join(' ') ?? []);

async function showAllowed(label, address) {
    const session = await openSession();
    const since = logged(0).join('\n').length;
    const tool = 'extra_of_a_page';
    await show(label, address, { url, role: 'allowed', tool });
    const lines = logged(since);
    const hasRun = lines.some(line => line.includes('audit: tools/call "offer_tool" begins'));
    const isThere = (await toolNames(session)).includes(tool);
    tell(`${label}/was-run`, hasRun && isThere ? undefined : `in the log: ${hasRun}, in the list: ${isThere}`);
    const hasAsked = statuses(lines).includes('OPTIONS 204');
    tell(`${label}/preflight`, hasAsked ? undefined : 'the browser never asked whether it may');
    await send({ id: 3, method: 'tools/call', params: { name: 'withdraw_tool', arguments: { name: tool } } }, session);
}

async function showRefused(label, address) {
    const session = await openSession();
    const since = logged(0).join('\n').length;
    const tool = `extra_${label.replace(/[^a-z0-9]/g, '_')}`;
    await show(label, address, { url, role: 'refused', session, tool });
    const lines = logged(since);
    const all = statuses(lines);
    const others = all.filter(status => !/ 403$/.test(status));
    const posts = all.filter(status => status.startsWith('POST')).length;
    tell(`${label}/all-refused`, others.length ? `some were not: ${others}` : undefined);
    // The plain one, the blind one and the form; a browser sends these without asking.
    tell(`${label}/was-tried`, posts >= 3 ? undefined : `${posts} posts came through`);
    const runs = lines.filter(line => line.includes('audit:'));
    tell(`${label}/never-ran`, runs.length ? `the server ran ${runs}` : undefined);
    const names = await toolNames(session).catch(error => error);
    const isUntouched = Array.isArray(names) && !names.includes(tool);
    tell(`${label}/untouched`, isUntouched ? undefined : String(names));
}

mkdirSync(work, { recursive: true });
await new Promise(resolve => pages.listen(0, '127.0.0.1', resolve));
await showAllowed('allowed', 'http://allowed.test/');
await showRefused('refused', 'http://refused.test/');
await showRefused('refused-port', 'http://allowed.test:81/');
await showRefused('refused-subdomain', 'http://www.allowed.test/');
await showRefused('refused-loopback', `http://127.0.0.1:${pages.address().port}/`);
console.log(`browser: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
