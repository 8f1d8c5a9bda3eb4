// @e2b/cli as a program.
// server: pool_size=4
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { check, e2b, equal, fails, matches, resolve, run, sleep, test, until, within } from './harness.mjs'

const { Sandbox, SandboxNotFoundError } = e2b
const program = resolve('@e2b/cli/dist/index.js')
const home = mkdtempSync(join(process.env.SDK_FOLDER, 'cli-'))
process.on('exit', () => rmSync(home, { recursive: true, force: true }))

// { code, out, err } of one call; what it says is plain because nobody looks.
function cli(args, { input, env = {} } = {}) {
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...process.env, HOME: home, NO_COLOR: '1', NO_UPDATE_NOTIFIER: '1', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  const said = { out: '', err: '' }
  child.stdout.on('data', (d) => (said.out += d))
  child.stderr.on('data', (d) => (said.err += d))
  child.stdin.on('error', () => {})
  child.stdin.end(input)
  const ended = new Promise((done) => child.on('close', (code) => done({ code, ...said })))
  return within(ended, 15, `e2b ${args.join(' ')}`).catch((e) => {
    child.kill('SIGKILL')
    e.message += ` (${JSON.stringify(said)})`
    throw e
  })
}

async function good(args, more) {
  const done = await cli(args, more)
  check(done.code === 0, `e2b ${args.join(' ')}: ${JSON.stringify(done)}`)
  return done
}

test(
  'sandbox create, list, info, kill',
  async (t) => {
    const made = await good(['sandbox', 'create', '--detach', 'base'])
    const id = made.out.match(/\b[a-z0-9]{17,39}\b/)?.[0]
    check(id, `no id in ${made.out}`)
    t.keep({ sandboxId: id })
    const list = JSON.parse((await good(['sandbox', 'list', '--format', 'json'])).out)
    equal(
      list.map((s) => [s.sandboxId, s.state, s.templateId]),
      [[id, 'running', 'base']],
    )
    const info = JSON.parse((await good(['sandbox', 'info', id, '--format', 'json'])).out)
    equal([info.sandboxId, info.state], [id, 'running'])
    matches((await good(['sandbox', 'info', id])).out, new RegExp(id))
    await good(['sandbox', 'kill', id])
    await fails(Sandbox.getInfo(id), SandboxNotFoundError)
    const again = await cli(['sandbox', 'kill', id])
    matches(again.out + again.err, /not found|wasn't found|doesn't exist/i)
  },
  { seconds: 60 },
)

test(
  'sandbox exec: output, exit code, stdin, user, directory, environment',
  async (t) => {
    const { sandboxId: id } = await t.create()
    const echo = await good(['sandbox', 'exec', id, 'echo', 'from inside'])
    equal(echo.out, 'from inside\n')
    const failed = await cli(['sandbox', 'exec', id, 'echo why >&2; exit 3'])
    equal([failed.code, failed.err.includes('why')], [3, true])
    equal((await good(['sandbox', 'exec', id, 'cat'], { input: 'piped in\n' })).out, 'piped in\n')
    equal(
      (await good(['sandbox', 'exec', '-u', 'root', '-c', '/tmp', '-e', 'A=b', id, 'echo $(whoami) $(pwd) $A'])).out,
      'root /tmp b\n',
    )
  },
  { seconds: 60 },
)

test(
  'sandbox pause, resume',
  async (t) => {
    const sandbox = await t.create()
    await good(['sandbox', 'pause', sandbox.sandboxId])
    equal((await sandbox.getInfo()).state, 'paused')
    const paused = JSON.parse((await good(['sandbox', 'list', '--state', 'paused', '--format', 'json'])).out)
    equal(
      paused.map((s) => s.sandboxId),
      [sandbox.sandboxId],
    )
    await good(['sandbox', 'resume', sandbox.sandboxId])
    equal((await sandbox.getInfo()).state, 'running')
  },
  { seconds: 60 },
)

test(
  'sandbox logs and metrics',
  async (t) => {
    const sandbox = await t.create()
    await sandbox.commands.run('true')
    const logs = await good(['sandbox', 'logs', sandbox.sandboxId, '--format', 'json', '--level', 'DEBUG'])
    for (const line of logs.out.split('\n').filter((l) => l.startsWith('{'))) {
      const entry = JSON.parse(line)
      check(!Number.isNaN(Date.parse(entry.timestamp)), line)
    }
    check(
      logs.out.split('\n').some((l) => l.startsWith('{')),
      `no line of the log: ${JSON.stringify(logs)}`,
    )
    await until(async () => (await sandbox.getMetrics()).length > 0, 'a metric', 12, 200)
    const metrics = await good(['sandbox', 'metrics', sandbox.sandboxId, '--format', 'json'])
    matches(metrics.out, /cpu/i)
  },
  { seconds: 60 },
)

test(
  'template list; snapshots',
  async (t) => {
    const list = JSON.parse((await good(['template', 'list', '--format', 'json'])).out)
    check(
      list.some((one) => one.templateID === 'base' || one.aliases?.includes('base')),
      JSON.stringify(list),
    )
    const sandbox = await t.create()
    const made = await good(['sandbox', 'snapshot', 'create', sandbox.sandboxId])
    const id = /[a-z0-9]{20}:default/.exec(made.out + made.err)?.[0]
    check(id, `no id: ${JSON.stringify(made)}`)
    matches((await good(['sandbox', 'snapshot', 'list'])).out, new RegExp(id))
    await good(['sandbox', 'snapshot', 'delete', id])
  },
  { seconds: 60 },
)

test(
  'kill --all, unknown ids, wrong keys',
  async (t) => {
    await t.create()
    await t.create()
    await good(['sandbox', 'kill', '--all'])
    equal(await Sandbox.list().nextItems(), [])
    const none = await cli(['sandbox', 'info', 'i0000000000000000'])
    matches(none.out + none.err, /not found|wasn't found|doesn't exist/i)
    const key = await cli(['sandbox', 'list'], { env: { E2B_API_KEY: 'e2b_0000' } })
    check(key.code !== 0, 'a wrong key is refused')
    matches(key.out + key.err, /unauthorized|credentials|401/i)
  },
  { seconds: 60 },
)

test(
  'an interactive terminal',
  async (t) => {
    const sandbox = await t.create({ timeoutMs: 60_000 })
    const typed = `sleep 1; printf 'echo in""side; exit\\n'; sleep 2`
    const command = `(${typed}) | script -qec '${process.execPath} ${program} sandbox connect ${sandbox.sandboxId}' /dev/null`
    const child = spawn('sh', ['-c', command], {
      env: { ...process.env, HOME: home },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let out = ''
    child.stdout.on('data', (d) => (out += d))
    const ended = new Promise((done) => child.on('close', done))
    try {
      await until(() => /inside/.test(out), 'the terminal', 12)
    } finally {
      await sleep(50) // the rest of the output
      child.kill()
      await within(ended, 10).catch(() => {})
    }
  },
  { seconds: 30 },
)

await run()
