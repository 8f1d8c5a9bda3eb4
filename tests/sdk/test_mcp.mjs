// Sandbox.create({ mcp }): E2B's SDK starts mcp-gateway in the sandbox; the official client of MCP speaks with it through
// the port that getMcpUrl() names. The servers are tests/gateway/stdio_server.py, and official ones from npm.
// server: pool_size=2
// server at microvm: memory_default=1G
// kills
// languages
import { execFileSync } from 'node:child_process'
import events from 'node:events'
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { Readable } from 'node:stream'
import { check, e2b, equal, fails, load, matches, operator, resolve, run, test, until, url } from './harness.mjs'

events.setMaxListeners(1000) // one signal for all requests of a client
const { Sandbox, SandboxError } = e2b
const { Client } = load('@modelcontextprotocol/sdk/client/index.js')
const { StreamableHTTPClientTransport } = load('@modelcontextprotocol/sdk/client/streamableHttp.js')
const script = fs.readFileSync(path.join(import.meta.dirname, '../gateway/stdio_server.py'), 'utf8')
const server = (...args) => ({ command: ['python3', '-c', script, ...args] })
const MODERN = '2026-07-28'

// The name of the sandbox's port goes into Host: nothing resolves it here.
function fetchByHost(target, init = {}) {
  const to = new URL(target)
  return new Promise((done, failed) => {
    const headers = { ...Object.fromEntries(new Headers(init.headers)), Host: to.host }
    const asked = http.request(
      { hostname: url.hostname, port: url.port, path: to.pathname, method: init.method ?? 'GET', headers, setHost: false },
      (answer) => {
        const empty = [202, 204, 304].includes(answer.statusCode)
        if (empty) answer.resume()
        done(new Response(empty ? null : Readable.toWeb(answer), { status: answer.statusCode, headers: answer.headers }))
      },
    )
    init.signal?.addEventListener('abort', () => asked.destroy(new DOMException('aborted', 'AbortError')), { once: true })
    asked.on('error', failed)
    asked.end(init.body)
  })
}

async function connect(sandbox, token) {
  const bearer = token ?? (await sandbox.getMcpToken())
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(
    new StreamableHTTPClientTransport(new URL(sandbox.getMcpUrl()), {
      fetch: fetchByHost,
      requestInit: { headers: { Authorization: `Bearer ${bearer}` } },
    }),
  )
  return client
}

const call = async (client, name, args = {}, options = {}) => {
  const got = await client.callTool({ name, arguments: args }, undefined, options)
  return { text: got.content.map((c) => c.text).join(''), isError: got.isError ?? false, structured: got.structuredContent }
}

// One request of the newer protocol, as its clients write it.
async function modern(sandbox, method, params = {}, more = {}) {
  const meta = { 'io.modelcontextprotocol/protocolVersion': MODERN, 'io.modelcontextprotocol/clientCapabilities': {} }
  const answer = await fetchByHost(sandbox.getMcpUrl(), {
    method: 'POST',
    headers: {
      Authorization: `Bearer ${await sandbox.getMcpToken()}`,
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'MCP-Protocol-Version': MODERN,
      'Mcp-Method': method,
      ...(params.name ? { 'Mcp-Name': params.name } : {}),
      ...more,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 'x', method, params: { ...params, _meta: meta } }),
  })
  return { status: answer.status, json: await answer.json() }
}

test('Sandbox.create({ mcp }) joins servers of both eras behind one URL and token', async (t) => {
  const mcp = { old: { ...server('--name', 'old'), envs: { COLOUR: 'blue' } }, new: server('--name', 'new', '--era', 'modern') }
  const sandbox = await t.create({ mcp })
  matches(sandbox.getMcpUrl(), /^https:\/\/50005-.*\/mcp$/)
  equal(await sandbox.getMcpToken(), await sandbox.files.read('/etc/mcp-gateway/.token', { user: 'root' }))
  await fails(sandbox.commands.run('cat /etc/mcp-gateway/.token'), e2b.CommandExitError)
  const client = await connect(sandbox)
  equal(client.getServerVersion().name, 'mcp-gateway')
  const { tools } = await client.listTools()
  equal(tools.length, 24)
  check(tools.some((x) => x.name === 'old__write.file') && tools.every((x) => x.inputSchema.type === 'object'), 'names')
  equal((await call(client, 'old__echo', { text: 'hello' })).text, 'old: hello')
  equal((await call(client, 'new__add', { a: 1, b: 2 })).structured, { sum: 3 })
  equal((await call(client, 'old__env', { name: 'COLOUR' })).text, 'blue')
  equal((await call(client, 'new__env', { name: 'COLOUR' })).text, 'None')
  equal((await call(client, 'old__env', { name: 'GATEWAY_ACCESS_TOKEN' })).text, 'None')
  equal((await call(client, 'old__whoami')).text, '1000 /home/user /home/user', 'the ordinary user')
  for (const name of ['old__nothing', 'none__echo', 'echo', 'old__a/b']) {
    matches((await client.callTool({ name }).catch((e) => e)).message, /-32602.*unknown tool/, name)
  }
  // not in sight of the servers, nor of other programs of the sandbox
  const seen = await sandbox.commands.run("grep -al 'CO[L]OUR' /proc/[0-9]*/cmdline /proc/[0-9]*/environ | grep -c cmdline || true")
  equal(seen.stdout.trim(), '0', 'command lines that have the variable')
  await client.close()
})

test('progress, cancellation and calls at the same time', async (t) => {
  const sandbox = await t.create({ mcp: { a: server('--name', 'a'), b: server('--era', 'both') } })
  const client = await connect(sandbox)
  const steps = []
  const slow = await call(client, 'a__slow', { seconds: 0.5 }, { onprogress: (p) => steps.push(p.progress) })
  equal(slow.text, 'slept')
  check(steps.length >= 2 && steps[0] === 1, `progress: ${steps}`)
  const texts = await Promise.all([...Array(40).keys()].map((i) => call(client, `${'ab'[i % 2]}__echo`, { text: i })))
  equal(texts.map((x) => x.text.split(': ')[1]), [...Array(40).keys()].map(String))
  equal((await modern(sandbox, 'server/discover')).json.result.supportedVersions.includes(MODERN), true)
  const gone = new AbortController()
  const asked = fetchByHost(sandbox.getMcpUrl(), {
    method: 'POST',
    signal: gone.signal,
    headers: {
      Authorization: `Bearer ${await sandbox.getMcpToken()}`,
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      'MCP-Protocol-Version': MODERN,
      'Mcp-Method': 'tools/call',
      'Mcp-Name': 'a__slow',
    },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: {
        name: 'a__slow',
        arguments: { seconds: 60 },
        _meta: {
          'io.modelcontextprotocol/protocolVersion': MODERN,
          'io.modelcontextprotocol/clientCapabilities': {},
          progressToken: 'p',
        },
      },
    }),
  })
  await asked // the head: the call is under way
  gone.abort()
  await until(() => sandbox.files.exists('/tmp/cancelled'), 'the cancellation at the server')
})

test('the newer protocol is answered as it says', async (t) => {
  const sandbox = await t.create({ mcp: { a: server() } })
  const listed = await modern(sandbox, 'tools/list')
  equal([listed.status, listed.json.result.resultType, listed.json.id], [200, 'complete', 'x'])
  const got = await modern(sandbox, 'tools/call', { name: 'a__echo', arguments: { text: 'ü\n' } })
  equal([got.json.result.content[0].text, got.json.result.resultType], ['test: ü\n', 'complete'])
  equal((await modern(sandbox, 'tools/call', { name: 'a__echo' }, { 'Mcp-Name': 'a__die' })).json.error.code, -32020)
  const region = { name: 'a__region', arguments: { place: 'here' } } // x-mcp-header: Place
  equal((await modern(sandbox, 'tools/call', region)).json.error.code, -32020)
  equal((await modern(sandbox, 'tools/call', region, { 'Mcp-Param-Place': 'there' })).json.error.code, -32020)
  equal((await modern(sandbox, 'tools/call', region, { 'Mcp-Param-Place': 'here' })).json.result.content[0].text, 'here')
  equal((await modern(sandbox, 'ping')).status, 404)
  const asks = await modern(sandbox, 'tools/call', { name: 'a__ask' })
  matches(asks.json.result.content[0].text, /refused by this gateway/)
})

test('no or a wrong token is refused, other paths are not there', async (t) => {
  const sandbox = await t.create({ mcp: { a: server() } })
  await fails(connect(sandbox, 'wrong'), Error, /token/).catch(async () => {
    matches((await connect(sandbox, 'wrong').catch((e) => e)).message, /401|token|authoriz/i)
  })
  const get = (headers, where = '/mcp', method = 'POST') =>
    fetchByHost(sandbox.getMcpUrl().replace('/mcp', where), { method, headers, body: method === 'POST' ? '{}' : undefined })
  const token = { Authorization: `Bearer ${await sandbox.getMcpToken()}` }
  equal((await get({})).status, 401)
  equal((await get({ Authorization: 'Bearer ' })).status, 401)
  equal((await get({ Authorization: token.Authorization + 'x' })).status, 401)
  equal((await get(token, '/other')).status, 404)
  equal((await get(token, '/mcp', 'GET')).status, 405)
  equal((await get(token, '/mcp', 'DELETE')).status, 405)
})

test('a server that cannot be started fails the creation, with its words', async () => {
  const before = (await Sandbox.list().nextItems()).length
  await fails(Sandbox.create({ mcp: { a: server(), b: server('--bad', 'exit') } }), SandboxError, /Failed to start MCP gateway.*server b.*no such database/s)
  await fails(Sandbox.create({ mcp: { exa: { apiKey: 'x' } } }), SandboxError, /server exa: .*container images/s)
  await fails(Sandbox.create({ mcp: { a: { command: '/nowhere/x' } } }), SandboxError, /server a: .*127.*not found/s)
  await fails(Sandbox.create({ mcp: { 'a__b': server() } }), SandboxError, /letters, digits/)
  equal((await Sandbox.list().nextItems()).length, before, 'their sandboxes are gone')
})

test('a server that dies is started again, and each call is answered once', async (t) => {
  const sandbox = await t.create({ mcp: { a: server('--name', 'a'), b: server('--name', 'b') } })
  const client = await connect(sandbox)
  const waiting = call(client, 'a__slow', { seconds: 60 })
  const other = call(client, 'b__slow', { seconds: 1 })
  const died = await call(client, 'a__die')
  equal(died.isError, true)
  matches(died.text, /server a: it ended with exit code 3/)
  equal((await waiting).isError, true, 'a call at the same server')
  equal((await other).text, 'slept', 'a call at another')
  await until(async () => (await call(client, 'a__echo', { text: 1 })).text === 'a: 1', 'the server again', 10, 200)
})

test('hostile servers harm their own calls only', async (t) => {
  const kinds = ['huge', 'garbage', 'wrong_id', 'twice', 'flood', 'half', 'types', 'lines', 'names', 'many', 'cursors', 'noise']
  const base = await t.create()
  await base.files.write('/home/user/serve.py', script)
  const { snapshotId } = await base.createSnapshot() // the script would make the command line too long
  const mcp = Object.fromEntries(kinds.map((k) => [k.replace('_', '-'), { command: `python3 serve.py --bad ${k}` }]))
  const sandbox = await t.create(snapshotId, { mcp: { ...mcp, good: { command: 'python3 serve.py --name good' } } })
  const client = await connect(sandbox)
  const { tools } = await client.listTools()
  equal(tools.filter((x) => x.name.startsWith('names__')).map((x) => x.name), ['names__ok.name', 'names____x'])
  equal(tools.filter((x) => x.name.startsWith('many__')).length, 1000)
  equal(tools.filter((x) => x.name.startsWith('cursors__')).length, 64)
  const results = Object.fromEntries(
    await Promise.all(
      ['huge', 'garbage', 'wrong-id', 'twice', 'flood', 'half', 'lines', 'noise', 'good'].map(async (k) => [
        k,
        await call(client, `${k}__echo`, { text: k }),
      ]),
    ),
  )
  matches(results.huge.text, /longer than 4 MiB/)
  matches(results.garbage.text, /no result/)
  equal(results['wrong-id'].text, 'right')
  equal(results.twice.text, 'first')
  equal(results.flood.text, 'after the flood')
  matches(results.half.text, /server half: it (ended|closed)/)
  equal(results.lines.text, 'a\nb\u0000\u001b[31m\u2028')
  equal(results.noise.text, 'test: noise')
  equal(results.good.text, 'good: good')
  const stopped = new AbortController()
  const bad = await t.create({ mcp: { silent: server('--bad', 'silent'), good: server() } })
  const second = await connect(bad)
  const never = second.callTool({ name: 'silent__echo' }, undefined, { signal: stopped.signal }).catch((e) => e)
  equal((await call(second, 'good__echo', { text: 1 })).text, 'test: 1')
  stopped.abort(new Error('enough'))
  check((await never) instanceof Error, 'the call ends with its client')
}, { seconds: 40 })

test('repositories are cloned and installed; official servers from npm work', async (t) => {
  const base = await t.create()
  // the packages as npm has installed them, and a repository in place of one of GitHub
  const modules = path.join(path.dirname(resolve('e2b/package.json')), '..')
  const needed = ['@modelcontextprotocol/server-filesystem', '@modelcontextprotocol/server-everything']
  for (const name of needed) {
    const { dependencies = {} } = JSON.parse(fs.readFileSync(path.join(modules, name, 'package.json')))
    needed.push(...Object.keys(dependencies).filter((d) => !needed.includes(d) && fs.existsSync(path.join(modules, d))))
  }
  const archive = execFileSync('tar', ['-c', '--use-compress-program=gzip -1', '-C', path.dirname(modules),
    ...needed.map((name) => `node_modules/${name}`)], { maxBuffer: 1 << 28 })
  await base.files.write('/home/user/modules.tar.gz', new Blob([archive]))
  await base.commands.run('tar -xzf modules.tar.gz && rm modules.tar.gz && mkdir allowed && echo text > allowed/file', { timeoutMs: 60000 })
  await base.files.write('/srv/owner/repo/serve.py', script, { user: 'root' })
  const git = 'git -c user.name=a -c user.email=a@b -c init.defaultBranch=main'
  await base.commands.run(
    `cd /srv/owner/repo && ${git} init -q && git add . && ${git} commit -qm first && chmod -R a+rX /srv && git config --system url.file:///srv/.insteadOf https://github.com/ && git config --system safe.directory '*'`,
    { user: 'root' },
  )
  const snapshot = await base.createSnapshot()
  const official = (name) => `node_modules/@modelcontextprotocol/${name}/dist/index.js`
  const sandbox = await t.create(snapshot.snapshotId, {
    mcp: {
      'github/owner/repo': { installCmd: 'echo done > installed; echo noise', runCmd: 'python3 serve.py --name $WHO', envs: { WHO: 'cloned' } },
      files: { command: `node ${official('server-filesystem')} /home/user/allowed` },
      everything: { command: ['node', official('server-everything'), 'stdio'] },
    },
  })
  const client = await connect(sandbox)
  equal((await call(client, 'repo__echo', { text: 1 })).text, 'cloned: 1')
  equal((await call(client, 'repo__whoami')).text.split(' ')[1], '/home/user/mcp/owner/repo')
  equal((await sandbox.files.read('/home/user/mcp/owner/repo/installed')).trim(), 'done')
  matches((await call(client, 'files__list_directory', { path: '/home/user/allowed' })).text, /\[FILE\] file/)
  equal((await call(client, 'files__read_text_file', { path: '/home/user/allowed/file' })).text, 'text\n')
  equal((await call(client, 'files__read_text_file', { path: '/etc/passwd' })).isError, true)
  matches((await call(client, 'everything__echo', { message: 'ping' })).text, /ping/)
  await fails(t.create(snapshot.snapshotId, { mcp: { 'github/owner/none': { runCmd: 'x' } } }), SandboxError, /server none|server github\/owner\/none|none: it ended/)
}, { seconds: 60 })

test('a killed cordond ends calls that are under way, and no others', async (t) => {
  const sandbox = await t.create({ mcp: { a: server('--name', 'a') } })
  const client = await connect(sandbox)
  const cut = call(client, 'a__slow', { seconds: 3 }).catch((e) => e)
  equal((await call(client, 'a__echo', { text: 1 })).text, 'a: 1')
  await operator('kill', { name: 'cordond' })
  await operator('ready')
  check((await cut) instanceof Error || (await cut).text, 'it has ended')
  await until(async () => (await call(client, 'a__echo', { text: 2 }).catch(() => ({}))).text === 'a: 2', 'the same gateway again')
}, { seconds: 30 })

await run()
