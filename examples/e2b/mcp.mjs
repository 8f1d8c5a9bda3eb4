// MCP servers in a sandbox, with E2B's own SDK: Sandbox.create({ mcp }) starts them behind mcp-gateway, port 50005.
//
//   E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL (or E2B_API_KEY and E2B_DOMAIN) name the Cordon server.
import { Sandbox } from 'e2b'

// A server of one tool. One from npm would be { command: ['npx', '-y', 'PACKAGE', 'ARGUMENT'] }, in a sandbox whose network allows npm's hosts.
const clock = `
const answer = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, ...result }))
require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (id === undefined) return
  const results = {
    initialize: () => ({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'clock', version: '1' } }),
    'tools/list': () => ({ tools: [{ name: 'now', description: 'The time', inputSchema: { type: 'object' } }] }),
    'tools/call': () => ({ content: [{ type: 'text', text: 'it is ' + new Date().toISOString() }] }),
  }
  answer(id, results[method] ? { result: results[method]() } : { error: { code: -32601, message: 'no such method' } })
})`

const sandbox = await Sandbox.create({ timeoutMs: 60_000, mcp: { clock: { command: ['node', '-e', clock] } } })

// With a domain getMcpUrl() is all that a client needs, beside the token. Without one the sandbox is named by headers.
const direct = process.env.E2B_SANDBOX_URL
const url = direct ? `${direct}/mcp` : sandbox.getMcpUrl()
const headers = {
  Authorization: `Bearer ${await sandbox.getMcpToken()}`,
  'Content-Type': 'application/json',
  Accept: 'application/json, text/event-stream',
  ...(direct ? { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '50005' } : {}),
}

// What a client of MCP does; a real one is @modelcontextprotocol/sdk, with `requestInit: { headers }`.
async function ask(method, params = {}) {
  const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }) })
  const { result, error } = await answer.json()
  if (error) throw new Error(`${method}: ${error.message}`)
  return result
}

const { tools } = await ask('tools/list')
console.log('tools', tools.map((tool) => tool.name).join(' '))
console.log('answer', (await ask('tools/call', { name: tools[0].name, arguments: {} })).content[0].text)
await sandbox.kill()
