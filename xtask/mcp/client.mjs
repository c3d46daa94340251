// What an agent does, with the official SDK: the same over stdio and over HTTP.
import assert from 'node:assert/strict';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';

const NAMED = ['search', 'log', 'show', 'materialize', 'checkpoint', 'fork', 'compile', 'pack', 'resolve', 'current', 'note'];

/** Uses every tool, resource and prompt through a transport; returns the names of all tools. */
export async function exercise(transport, thread) {
  const client = new Client({ name: 'enjamb-xtask', version: '1.0.0' });
  await client.connect(transport);
  const use = async (name, args) => {
    const result = await client.callTool({ name, arguments: args });
    assert.ok(!result.isError, `${name}: ${JSON.stringify(result.content)}`);
    assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent, 'text and structure say the same');
    return result.structuredContent;
  };
  const tools = (await client.listTools()).tools.map((tool) => tool.name);
  for (const name of NAMED) assert.ok(tools.includes(`context_${name}`), `context_${name} in ${tools}`);
  assert.ok(tools.includes('thread_handoff'));

  const said = `{"role":"user","content":"cap retries, ${Math.random()}"}\n`;
  const made = await use('context_checkpoint', { content: said, principal: 'agent/sdk', session_id: 'sdk-1', summary: 'retries' });
  const id = made.commits[0].id;
  assert.equal((await use('context_show', { context: id })).summary, 'retries');
  assert.equal((await use('context_log', { principal: 'agent/sdk', limit: 1 })).contexts[0].id, id);
  assert.equal((await use('context_resolve', { principal: 'agent/sdk' })).id, id);
  assert.equal((await use('context_current', { session: ['sdk-1'] })).id, id);
  assert.match((await use('context_materialize', { context: id })).text, /cap retries/);
  await use('context_note', { context: id, tags: ['checked'] });
  await use('context_fork', { context: id, name: `side-${id.slice(4, 12)}` });
  assert.ok((await use('context_compile', { from: id })).bundle.startsWith('art-'));
  assert.equal((await use('context_pack', { from: [id] })).packs[0].messages, 1);
  await use('thread_post', { thread, content: 'two sleeps in the retry loop' });
  assert.ok((await use('context_search', { q: 'sleeps retry' })).hits.length > 0);
  assert.ok((await use('thread_handoff', { thread, summary_markdown: 'cap retries at 3' })).thread_id);
  const wrong = await client.callTool({ name: 'context_show', arguments: { context: 'ctx-00000000' } });
  assert.ok(wrong.isError && wrong.content[0].text.includes('not-found'));

  const { resources } = await client.listResources();
  assert.ok(resources.some((resource) => resource.uri === `enjamb://context/${id}`));
  assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 4);
  const [read] = (await client.readResource({ uri: `enjamb://context/${id}` })).contents;
  assert.match(read.text, /cap retries/);
  const { prompts } = await client.listPrompts();
  assert.deepEqual(prompts.map((prompt) => prompt.name).sort(), ['continue_from', 'hand_off', 'review_discussion']);
  const prompt = await client.getPrompt({ name: 'continue_from', arguments: { context: id } });
  assert.match(prompt.messages[0].content.text, /cap retries/);
  await client.close();
  return tools;
}
