// Stands between the public suite and the server: adds the token, which the suite has no option for, and gives the suite's own
// names (it asks for tools such as test_simple_text) to what this server really has. Answers pass through as they are.
import http from 'node:http';

/** Requests of the suite, and what is asked of the server instead. */
function renamed(method, params, ids) {
  const wanted = params?.name ?? params?.uri;
  const table = {
    'tools/call test_simple_text': { name: 'context_log', arguments: { limit: 1 } },
    'tools/call test_error_handling': { name: 'context_show', arguments: { context: 'ctx-00000000' } },
    'resources/read test://static-text': { uri: `enjamb://artifact/${ids.text}` },
    'resources/read test://static-binary': { uri: `enjamb://artifact/${ids.binary}` },
    'resources/read test://template/123/data': { uri: `enjamb://artifact/${ids.text}` },
    'prompts/get test_simple_prompt': { name: 'continue_from', arguments: { context: '@' } },
    'prompts/get test_prompt_with_arguments': { name: 'continue_from', arguments: { context: params?.arguments?.arg1 } },
  };
  return { ...params, ...(table[`${method} ${wanted}`] ?? {}) };
}

function rewritten(body, ids) {
  try {
    const message = JSON.parse(body);
    return JSON.stringify({ ...message, ...(message.params && { params: renamed(message.method, message.params, ids) }) });
  } catch {
    return body;
  }
}

/** Listens on a free port of this machine; gives its address and a way to end it. */
export function between(url, token, ids) {
  const { hostname, port } = new URL(url);
  const server = http.createServer((request, response) => {
    const parts = [];
    request.on('data', (part) => parts.push(part));
    request.on('end', () => {
      const body = rewritten(Buffer.concat(parts).toString(), ids);
      const headers = { ...request.headers, authorization: `Bearer ${token}` };
      delete headers['transfer-encoding'];
      if (body) headers['content-length'] = Buffer.byteLength(body);
      const passed = http.request({ hostname, port, path: request.url, method: request.method, headers }, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      });
      passed.on('error', () => response.destroy());
      passed.end(body);
    });
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const address = `http://localhost:${server.address().port}`;
      resolve({ address, end: () => server.closeAllConnections() ?? server.close() });
    });
  });
}
