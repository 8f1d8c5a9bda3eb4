// clients.mjs - the official clients of MCP against a server: SDK 1 (legacy), SDK 2 (both eras), over HTTP and through
// cordon mcp. test_clients.py runs it:  node clients.mjs URL KEY CORDON PACKAGES
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [url, key, cordon, packages] = process.argv.slice(2)
const from = createRequire(pathToFileURL(packages + '/package.json'))
const load = async (name) => import(pathToFileURL(from.resolve(name)))
const one = {
  ...(await load('@modelcontextprotocol/sdk/client/index.js')),
  ...(await load('@modelcontextprotocol/sdk/client/streamableHttp.js')),
  ...(await load('@modelcontextprotocol/sdk/client/stdio.js')),
}
const two = { ...(await load('@modelcontextprotocol/client')), ...(await load('@modelcontextprotocol/client/stdio')) }

const http = (sdk) => new sdk.StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${key}` } } })
const stdio = (sdk) => new sdk.StdioClientTransport({
  command: cordon, args: ['mcp', '--server', new URL(url).origin], env: { ...process.env, CORDON_API_KEY: key },
})
const who = { name: 'cordon-tests', version: '1' }
const modern = { versionNegotiation: { mode: { pin: '2026-07-28' } } }
const kinds = {
  'SDK 1, HTTP': [one, http, {}],
  'SDK 1, stdio': [one, stdio, {}],
  'SDK 2 legacy, HTTP': [two, http, {}],
  'SDK 2 modern, HTTP': [two, http, modern],
  'SDK 2 modern, stdio': [two, stdio, modern],
  'SDK 2 auto, stdio': [two, stdio, { versionNegotiation: { mode: 'auto' } }],
}

async function everything(client) {
  const { tools } = await client.listTools()
  assert.equal(tools.length, 10)
  const call = async (name, args, options) => {
    const got = await client.callTool({ name, arguments: args }, ...(options ?? []))
    assert.ok(!got.isError, JSON.stringify(got))
    return got.structuredContent // the client has checked it against the schema
  }
  assert.equal((await call('run', { command: 'echo fresh' })).stdout, 'fresh\n')
  const { session_id: session } = await call('create_session', { metadata: { by: 'sdk' } })
  await call('write_file', { session_id: session, path: 'a.txt', text: 'one\n' })
  await call('write_file', { session_id: session, path: 'a.txt', edits: [{ old: 'one', new: 'two' }] })
  assert.equal((await call('read_file', { session_id: session, path: 'a.txt' })).text, 'two\n')
  assert.deepEqual((await call('list_files', { session_id: session })).entries.map((e) => e.path), ['/home/user/a.txt'])
  assert.equal((await call('get_changes', { session_id: session })).added.length, 1)
  assert.match((await call('open_port', { session_id: session, port: 80 })).url, /^http/)
  assert.equal((await call('session_info', { session_id: session })).state, 'running')
  const { execution_id: x } = await call('run', { session_id: session, command: 'echo b; exec sleep 100', background: true })
  assert.equal((await call('read_output', { execution_id: x, wait_s: 10 })).text, 'b\n')
  assert.ok((await call('stop', { execution_id: x })).stopped)
  const bad = await client.callTool({ name: 'read_file', arguments: { session_id: session, path: 'nothing' } })
  assert.ok(bad.isError && bad.content[0].text.includes('No such file'))
  const { resources } = await client.listResources()
  assert.ok(resources.some((r) => r.uri === `cordon://sessions/${session}`))
  assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 4)
  const { contents } = await client.readResource({ uri: `cordon://sessions/${session}/files/home/user/a.txt` })
  assert.equal(contents[0].text, 'two\n')
  return { call, session }
}

// Progress comes while the command runs; a cancelled call ends its command.
async function ends(client, sdk, session, call) {
  const options = (more) => (sdk === one ? [undefined, more] : [more])
  const seen = []
  await call('run', { session_id: session, command: 'for i in 1 2 3; do echo $i; sleep 0.7; done' },
    options({ onprogress: (p) => seen.push(p) }))
  assert.ok(seen.length >= 1 && seen.length <= 3 && seen[0].message, JSON.stringify(seen))
  const stop = new AbortController()
  const running = client.callTool({ name: 'run', arguments: { session_id: session, command: 'exec sleep 777' } },
    ...options({ signal: stop.signal }))
  const alive = async () => (await call('run', { session_id: session, command: 'cat /proc/[0-9]*/cmdline | tr "\\0" " "' })).stdout.includes('sleep 777')
  const until = async (what) => {
    for (let i = 0; i < 400; i++) {
      if (await what()) return
      await new Promise((done) => setTimeout(done, 25))
    }
    assert.fail('timeout')
  }
  await until(alive)
  stop.abort()
  await assert.rejects(running)
  await until(async () => !(await alive()))
}

console.log(`1..${Object.keys(kinds).length}`)
let failed = 0
for (const [i, [name, [sdk, transport, options]]] of Object.entries(kinds).entries()) {
  const client = new sdk.Client(who, options)
  try {
    await client.connect(transport(sdk))
    const { call, session } = await everything(client)
    await ends(client, sdk, session, call)
    await call('stop', { session_id: session })
    console.log(`ok ${i + 1} - ${name}`)
  } catch (e) {
    failed++
    console.log(`not ok ${i + 1} - ${name}\n# ${String(e.stack).split('\n').slice(0, 8).join('\n# ')}`)
  } finally {
    await client.close().catch(() => {})
  }
}
process.exit(failed ? 1 : 0)
