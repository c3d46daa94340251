// Run by `cargo xtask mcp-conformance`: a server on a store that is thrown away, the official SDK over stdio and HTTP, and
// the public conformance suite.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { exercise } from './client.mjs';
import { between } from './go_between.mjs';

const [enjamb, baseline] = process.argv.slice(2);
const home = mkdtempSync(join(tmpdir(), 'enjamb-mcp-'));
const env = { PATH: process.env.PATH, HOME: home, ENJAMB_STORE: join(home, 'store') };
const run = (args, input = '') => execFileSync(enjamb, args, { env, input, cwd: home }).toString().trim();

function seeded() {
  run(['init']);
  const text = run(['put'], 'template 123');
  const binary = run(['put'], Buffer.from([0xff, 0xfe, 0x00, 0x01]));
  const delta = '{"role":"user","content":"testValue1 and testValue2"}\n';
  const commit = run(['checkpoint', '--format', 'generic-v1', '--principal', 'agent/suite'], delta);
  run(['fork', commit, '-n', 'testValue1']);
  return { text, binary, thread: run(['thread', 'create', '--title', 'retries']) };
}

function served() {
  const server = spawn(enjamb, ['serve', '--listen', '127.0.0.1:0', '--json'], { env, cwd: home });
  return new Promise((resolve, reject) => {
    server.stdout.once('data', (line) => resolve({ server, url: JSON.parse(line).url }));
    server.once('exit', (code) => reject(new Error(`the server ended with ${code}`)));
  });
}

async function clients(url, token, thread) {
  const stdio = await exercise(new StdioClientTransport({ command: enjamb, args: ['mcp'], env, cwd: home }), thread);
  const headers = { Authorization: `Bearer ${token}` };
  const http = await exercise(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }), thread);
  assert.deepEqual(http, stdio, 'the same tools by either way');
  console.log(`✓ the official SDK over stdio and HTTP: ${stdio.length} tools, resources, prompts`);
}

/** The suite runs as a program of its own: what it finds is its exit code. */
function suite(address) {
  const program = join(import.meta.dirname, 'node_modules/@modelcontextprotocol/conformance/dist/index.js');
  const args = [program, 'server', '--url', `${address}/mcp`, '--expected-failures', baseline];
  const running = spawn(process.execPath, args, { stdio: 'inherit', cwd: home });
  return new Promise((resolve) => running.once('exit', resolve));
}

let code = 1;
const ids = seeded();
const { server, url } = await served();
try {
  const token = readFileSync(join(home, 'store', 'token'), 'utf8').trim();
  await clients(url, token, ids.thread);
  const stand = await between(url, token, ids);
  code = await suite(stand.address);
  stand.end();
} finally {
  server.removeAllListeners('exit');
  server.kill('SIGINT');
  await new Promise((resolve) => server.once('exit', resolve));
  rmSync(home, { recursive: true, force: true });
}
process.exit(code);
