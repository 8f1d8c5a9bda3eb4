// A loop as agents have it, over the tools of Cordon's /mcp, with a script in the place of the model.
//
//   npm install; CORDON_MCP_URL=http://127.0.0.1:4983/mcp CORDON_API_KEY=e2b_... node agent.mjs
//
// The task: find and fix the bug in a small program, so that its test passes.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

const url = process.env.CORDON_MCP_URL ?? 'http://127.0.0.1:4983/mcp'
const headers = { Authorization: `Bearer ${process.env.CORDON_API_KEY}` }
const client = new Client({ name: 'example-agent', version: '1' }, { versionNegotiation: { mode: 'auto' } })
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))

// What a real agent gives its model, with the tools' descriptions and schemas.
const { tools } = await client.listTools()
console.log('tools:', tools.map((t) => t.name).join(', '))

const program = `def mean(values):
    return sum(values) / len(values) + 1

if __name__ == "__main__":
    assert mean([1, 2, 3]) == 2, f"mean is {mean([1, 2, 3])}, not 2"
    print("all tests pass")
`
let session

// The model's part: from what it has seen last to the next call, or to its answer. A real one gets the results as text.
function decide(step, seen) {
  switch (step) {
    case 0: return { name: 'create_session', arguments: { timeout_s: 300, metadata: { task: 'fix mean' } } }
    case 1:
      session = seen.structuredContent.session_id
      return { name: 'write_file', arguments: { session_id: session, path: 'mean.py', text: program } }
    case 2: return { name: 'run', arguments: { session_id: session, command: 'python3 mean.py' } }
    case 3:
      if (seen.structuredContent.exit_code === 0) return { answer: 'There was no bug.' }
      return { name: 'read_file', arguments: { session_id: session, path: 'mean.py' } }
    case 4: // it has read the test's message and the file
      return { name: 'write_file', arguments: { session_id: session, path: 'mean.py', edits: [{ old: ' / len(values) + 1', new: ' / len(values)' }] } }
    case 5: return { name: 'run', arguments: { session_id: session, command: 'python3 mean.py', report_changes: true } }
    default: return { answer: `Fixed: ${seen.structuredContent.stdout.trim()}` }
  }
}

try {
  let seen = null
  for (let step = 0; step < 20; step++) {
    const next = decide(step, seen)
    if (next.answer) {
      console.log('answer:', next.answer)
      break
    }
    seen = await client.callTool(next)
    const text = seen.content.map((block) => block.text ?? `(${block.type})`).join('\n')
    console.log(`${next.name}${seen.isError ? ' FAILED' : ''}: ${text.replaceAll('\n', ' | ').slice(0, 400)}`)
  }
} finally {
  if (session) await client.callTool({ name: 'stop', arguments: { session_id: session } })
  await client.close()
}
