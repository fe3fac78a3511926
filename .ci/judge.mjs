// Judges the results of one run of the conformance suite against the known failures.
//
//   judge.mjs NAME DIR STATUS BASELINE TALLY   one run: DIR has list.txt, output.txt and results/
//   judge.mjs --total BASELINE TALLY           all runs together; prints the closing line
//
// A scenario passes when no check of it failed or warned. It may fail only where the baseline says
// so, and must fail there: an entry whose scenario or check passes is out of date and fails the run.

import { appendFileSync, existsSync, readFileSync, readdirSync } from 'node:fs';

// Later wins where one check id was reported several times.
const severities = ['INFO', 'SKIPPED', 'SUCCESS', 'WARNING', 'FAILURE'];
const isBad = status => status === 'FAILURE' || status === 'WARNING';

if (process.argv[2] === '--total') total(...process.argv.slice(3));
else judge(...process.argv.slice(2));

function judge(name, dir, suiteStatus, baselinePath, tallyPath) {
    const baseline = readBaseline(baselinePath);
    const results = readResults(`${dir}/results`);
    const tally = { name, passed: 0, failed: 0, known: 0, empty: 0, matched: [], stale: [] };
    const problems = [];

    for (const scenario of listed(readFileSync(`${dir}/list.txt`, 'utf8'))) {
        const checks = results.get(scenario);
        if (!checks?.size) {
            tally.failed += 1;
            problems.push(`${scenario}: reported no check`);
            continue;
        }
        const entries = baseline.get(scenario);
        const found = compare(scenario, checks, entries);
        tally.matched.push(...found.matched);
        tally.stale.push(...found.stale);
        problems.push(...found.problems);
        if (found.problems.length) tally.failed += 1;
        else if (found.matched.length) tally.known += 1;
        else if (isEmpty(checks)) tally.empty += 1;
        else tally.passed += 1;
    }
    // The suite also fails on what leaves no results: a usage error, its own crash, our time limit.
    if (suiteStatus !== '0' && !problems.length) {
        tally.failed += 1;
        problems.push(`the suite exited with status ${suiteStatus}`);
        console.log(lastLines(`${dir}/output.txt`, 20));
    }

    for (const problem of problems) console.log(`FAIL ${name} ${problem}`);
    console.log(
        `${name}: ${tally.passed} scenarios passed, ${tally.failed} failed, ` +
            `${tally.known} known to fail, ${tally.empty} had nothing to check`,
    );
    appendFileSync(tallyPath, `${JSON.stringify(tally)}\n`);
    process.exit(problems.length ? 1 : 0);
}

/** What a scenario's checks say, each against its entry in the baseline. */
function compare(scenario, checks, entries) {
    const problems = [];
    const matched = new Set();
    const stale = [];
    const whole = entries?.has('*');
    for (const [id, { status, message }] of checks) {
        const excused = whole || entries?.has(id);
        if (isBad(status) && excused) matched.add(whole ? scenario : `${scenario}:${id}`);
        else if (isBad(status)) problems.push(`${scenario}: ${id} ${status}: ${message}`);
        else if (entries?.has(id) && status === 'SUCCESS') stale.push(`${scenario}:${id}`);
    }
    if (whole && !matched.size) stale.push(scenario);
    problems.push(...stale.map(entry => `${entry}: passes; take it out of the baseline`));
    return { problems, matched: [...matched], stale };
}

/** No check found anything to look at, as for an extension the server does not declare. */
function isEmpty(checks) {
    return ![...checks].some(([id, { status }]) => status === 'SUCCESS' && id !== 'wire-schema-valid');
}

function total(baselinePath, tallyPath) {
    const tallies = readFileSync(tallyPath, 'utf8').split('\n').filter(Boolean).map(line => JSON.parse(line));
    const seen = new Set(tallies.flatMap(tally => [...tally.matched, ...tally.stale]));
    const passed = tallies.reduce((sum, tally) => sum + tally.passed, 0);
    let failed = tallies.reduce((sum, tally) => sum + tally.failed, 0);
    for (const [scenario, checks] of readBaseline(baselinePath)) {
        for (const check of checks) {
            const entry = check === '*' ? scenario : `${scenario}:${check}`;
            if (seen.has(entry)) continue;
            failed += 1;
            console.log(`FAIL baseline ${entry}: excused nothing in any run; take it out`);
        }
    }
    console.log(`conformance: ${passed} passed, ${failed} failed`);
    process.exit(failed || !passed ? 1 : 0);
}

/** The server scenarios that a listing of the suite names. */
function listed(text) {
    const names = [];
    let isServer = false;
    for (const line of text.split('\n')) {
        if (/^\S.*scenarios/.test(line)) isServer = line.startsWith('Server scenarios');
        const [, name, tag] = line.match(/^ +- (\S+)(?: \[(.*)\])?$/) ?? [];
        if (/^Run and reported/.test(line)) isServer = false;
        if (name && (isServer || tag === 'server')) names.push(name);
    }
    if (!names.length) throw new Error('the suite lists no server scenario');
    return names;
}

/** Scenario name to its checks: id to the worst status reported under it. */
function readResults(dir) {
    const results = new Map();
    for (const entry of existsSync(dir) ? readdirSync(dir) : []) {
        const [, scenario] = entry.match(/^server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z$/) ?? [];
        if (!scenario) throw new Error(`unknown results folder ${entry}`);
        const checks = new Map();
        for (const { id, status, errorMessage } of JSON.parse(readFileSync(`${dir}/${entry}/checks.json`, 'utf8'))) {
            if (!severities.includes(status)) throw new Error(`${scenario}: unknown status ${status}`);
            const worst = checks.get(id);
            if (worst && severities.indexOf(worst.status) >= severities.indexOf(status)) continue;
            checks.set(id, { status, message: (errorMessage ?? '').split('\n')[0].slice(0, 200) });
        }
        results.set(scenario, checks);
    }
    return results;
}

/** Scenario name to the ids of the checks that may fail, `*` for all of them. */
function readBaseline(path) {
    const baseline = new Map();
    for (const line of readFileSync(path, 'utf8').split('\n')) {
        const text = line.replace(/\s*#.*$/, '');
        if (!text.trim() || /^server:( \[\])?$/.test(text)) continue;
        const [, scenario, check = '*'] = text.match(/^ {2}- ([\w.-]+)(?::([\w.-]+))?$/) ?? [];
        if (!scenario) throw new Error(`${path}: not understood: ${line}`);
        if (!baseline.has(scenario)) baseline.set(scenario, new Set());
        baseline.get(scenario).add(check);
    }
    return baseline;
}

function lastLines(path, count) {
    return readFileSync(path, 'utf8').trimEnd().split('\n').slice(-count).join('\n');
}
