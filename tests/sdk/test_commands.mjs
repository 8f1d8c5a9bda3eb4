// Commands: what they say, how they end, where and as whom they run.
// server: pool_size=4
import { createHash } from 'node:crypto'
import { check, differs, e2b, equal, fails, matches, run, sleep, test, until } from './harness.mjs'

const { AuthenticationError, CommandExitError, InvalidArgumentError, NotFoundError, TimeoutError } = e2b

test('a command that succeeds', async (t) => {
  const sandbox = await t.create()
  const done = await sandbox.commands.run('echo out; echo err >&2')
  equal(done, { exitCode: 0, stdout: 'out\n', stderr: 'err\n' })
  equal(done.error, undefined, 'no error')
  equal(await sandbox.commands.run('true'), { exitCode: 0, stdout: '', stderr: '' })
})

test('a command that fails', async (t) => {
  const sandbox = await t.create()
  const e = await fails(sandbox.commands.run('echo some; echo why >&2; exit 3'), CommandExitError, /^exit status 3$/)
  equal([e.exitCode, e.stdout, e.stderr, e.error], [3, 'some\n', 'why\n', 'exit status 3'])
  const missing = await fails(sandbox.commands.run('no-such-program'), CommandExitError)
  equal(missing.exitCode, 127)
  matches(missing.stderr, /not found/)
})

test('a command that kills itself', async (t) => {
  const sandbox = await t.create()
  for (const [signal, word] of [
    ['KILL', 'killed'],
    ['TERM', 'terminated'],
  ]) {
    const e = await fails(sandbox.commands.run(`kill -${signal} $$`), CommandExitError, new RegExp(`^signal: ${word}$`))
    equal([e.exitCode, e.error], [-1, `signal: ${word}`])
  }
})

test('where: home, given, ~, relative, and nowhere', async (t) => {
  const sandbox = await t.create()
  await sandbox.files.makeDir('sub/dir')
  const pwd = async (opts) => (await sandbox.commands.run('pwd', opts)).stdout.trim()
  equal(await pwd(), '/home/user')
  equal(await pwd({ cwd: '/tmp' }), '/tmp')
  equal(await pwd({ cwd: '~' }), '/home/user')
  equal(await pwd({ cwd: '~/sub' }), '/home/user/sub')
  equal(await pwd({ cwd: 'sub/dir' }), '/home/user/sub/dir')
  equal(await pwd({ cwd: '' }), '/home/user')
  equal(await pwd({ user: 'root' }), '/root')
  await fails(sandbox.commands.run('pwd', { cwd: '/no/such' }), InvalidArgumentError, /cwd '\/no\/such' does not exist/)
})

test('who: user, root, and nobody known', async (t) => {
  const sandbox = await t.create()
  equal(
    (await sandbox.commands.run('whoami; id -gn; echo $HOME $USER $LOGNAME')).stdout,
    'user\nuser\n/home/user user user\n',
  )
  equal((await sandbox.commands.run('whoami; echo $HOME $USER', { user: 'root' })).stdout, 'root\n/root root\n')
  equal((await sandbox.commands.run('whoami', { user: 'user' })).stdout, 'user\n')
  await fails(sandbox.commands.run('true', { user: 'root123' }), AuthenticationError, /invalid username: 'root123'/)
})

test('sudo needs no password', async (t) => {
  const sandbox = await t.create()
  if (differs('set-user-id')) {
    const refused = await fails(sandbox.commands.run('sudo whoami'), CommandExitError)
    equal([refused.exitCode, refused.stdout], [1, ''])
    matches(refused.stderr, /no new privileges/)
    equal((await sandbox.commands.run('echo secret > f && cat f', { user: 'root', cwd: '/root' })).stdout, 'secret\n')
    return
  }
  equal((await sandbox.commands.run('sudo whoami')).stdout, 'root\n')
  equal(
    (await sandbox.commands.run('sudo -u root sh -c "echo secret > /root/f" && sudo cat /root/f')).stdout,
    'secret\n',
  )
  const e = await fails(sandbox.commands.run('sudo sh -c "exit 5"'), CommandExitError)
  equal(e.exitCode, 5)
})

test('environment: the sandbox’s, the call’s over it, and what E2B promises', async (t) => {
  const sandbox = await t.create({ envs: { A: 'sandbox', B: 'sandbox' } })
  const envs = { B: 'call', LINES: 'one\ntwo', SNOW: '☃', EMPTY: '' }
  const got = await sandbox.commands.run('printf "%s|" "$A" "$B" "$LINES" "$SNOW" "${EMPTY-unset}"', { envs })
  equal(got.stdout, 'sandbox|call|one\ntwo|☃||')
  const ours = await sandbox.commands.run('echo $E2B_SANDBOX $E2B_SANDBOX_ID')
  equal(ours.stdout, `true ${sandbox.sandboxId}\n`)
  equal((await sandbox.commands.run('echo $B')).stdout, 'sandbox\n', 'nothing stays of the call')
  equal((await sandbox.commands.run('shopt -q login_shell && echo login; umask')).stdout, 'login\n0022\n')
})

test('npm installs programs for the user', async (t) => {
  const sandbox = await t.create()
  const { stdout } = await sandbox.commands.run('command -v npm >/dev/null && npm config get prefix; echo "$PATH"')
  const lines = stdout.trim().split('\n')
  matches(lines.at(-1), /^\/home\/user\/\.local\/bin:/)
  if (lines.length > 1 && (await sandbox.commands.run('test -e /opt/cordon/npmrc && echo host || true')).stdout) equal(lines[0], '/home/user/.local')
})

test('what SDK users expect is installed', async (t) => {
  const sandbox = await t.create()
  const tools = ['bash', 'python3', 'git', 'curl', 'sudo', 'ls', 'tar', 'grep', 'sed']
  equal(
    (await sandbox.commands.run(`for p in ${tools.join(' ')}; do command -v $p >/dev/null || echo no $p; done`)).stdout,
    '',
  )
  equal((await sandbox.commands.run('python3 -c "print(6 * 7)"')).stdout, '42\n')
})

test('output comes while the command runs, each kind to its own callback', async (t) => {
  const sandbox = await t.create()
  const seen = []
  const began = Date.now()
  const done = await sandbox.commands.run('echo one; sleep 0.4; echo two >&2; sleep 0.4; echo three', {
    onStdout: (text) => void seen.push(['out', text, Date.now() - began]),
    onStderr: (text) => void seen.push(['err', text, Date.now() - began]),
  })
  equal(
    seen.map(([kind, text]) => [kind, text]),
    [
      ['out', 'one\n'],
      ['err', 'two\n'],
      ['out', 'three\n'],
    ],
  )
  check(seen[2][2] - seen[0][2] > 600, `not as it was said: ${seen.map((s) => s[2])}`)
  equal([done.stdout, done.stderr], ['one\nthree\n', 'two\n'])
})

test('characters cut in two, and bytes that are no characters', async (t) => {
  const sandbox = await t.create()
  const cut = await sandbox.commands.run(String.raw`printf '\xe2\x98'; sleep 0.2; printf '\x83!'`)
  equal(cut.stdout, '☃!')
  const wild = await sandbox.commands.run(String.raw`printf 'a\xff\x00b'`)
  equal(wild.stdout, 'a\ufffd\0b')
})

test('much output of both kinds arrives whole', async (t) => {
  const sandbox = await t.create()
  const done = await sandbox.commands.run('seq 1 100000; seq 100000 -1 1 >&2')
  const sum = (text) => createHash('sha256').update(text).digest('hex')
  const up = Array.from({ length: 100000 }, (_, i) => i + 1)
  equal(sum(done.stdout), sum(up.join('\n') + '\n'))
  equal(sum(done.stderr), sum(up.reverse().join('\n') + '\n'))
})

test(
  'more output than a server keeps is still delivered',
  async (t) => {
    const sandbox = await t.create()
    let bytes = 0
    const opts = { onStdout: (text) => void (bytes += text.length) }
    await sandbox.commands.run("head -c 24000000 /dev/zero | tr '\\0' x", opts)
    equal(bytes, 24_000_000)
  },
  { seconds: 40 },
)

test('in the background: listed, watched, killed', async (t) => {
  const sandbox = await t.create()
  equal(await sandbox.commands.list(), [])
  const handle = await sandbox.commands.run('echo up; sleep 60', { background: true, envs: { K: 'v' }, cwd: '/tmp' })
  check(Number.isInteger(handle.pid) && handle.pid > 0, `pid ${handle.pid}`)
  const [one, ...others] = await sandbox.commands.list()
  equal(others, [])
  equal(one, {
    pid: handle.pid,
    cmd: '/bin/bash',
    args: ['-l', '-c', 'echo up; sleep 60'],
    envs: { K: 'v' },
    cwd: '/tmp',
  })
  await until(() => handle.stdout === 'up\n', 'its output')
  equal(handle.exitCode, undefined, 'it runs')
  equal(await handle.kill(), true)
  const e = await fails(handle.wait(), CommandExitError, /signal: killed/)
  equal([e.exitCode, e.stdout], [-1, 'up\n'])
  equal(await sandbox.commands.list(), [])
  equal(await handle.kill(), false)
  equal(await sandbox.commands.kill(handle.pid), false)
  equal(await sandbox.commands.kill(3_999_999), false)
})

test('killing is quick though children hold the pipes', async (t) => {
  const sandbox = await t.create()
  const handle = await sandbox.commands.run('sleep 60 & echo $!; sleep 60', { background: true })
  await until(() => handle.stdout.length > 0, 'its output')
  equal(await handle.kill(), true)
  await fails(handle.wait(), CommandExitError, /signal: killed/, 4)
})

test('connect: a second listener hears what is said from now on', async (t) => {
  const sandbox = await t.create()
  const first = await sandbox.commands.run('for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.15; done; exit 4', {
    background: true,
  })
  await until(() => first.stdout.includes('2'), 'two lines')
  const heard = []
  const second = await sandbox.commands.connect(first.pid, { onStdout: (text) => void heard.push(text) })
  equal(second.pid, first.pid)
  const [one, two] = await Promise.all([first.wait(), second.wait()].map((p) => p.catch((e) => e)))
  equal([one.exitCode, two.exitCode], [4, 4])
  equal(one.stdout, '1\n2\n3\n4\n5\n6\n7\n8\n')
  matches(two.stdout, /^([2-9]\n)*8\n$/, 'only what came later')
  check(!two.stdout.startsWith('1'), 'nothing is said twice')
  equal(heard.join(''), two.stdout)
  await fails(sandbox.commands.connect(3_999_999), NotFoundError, /process with pid 3999999 not found/)
})

test('connect to a command that has just ended tells how', async (t) => {
  const sandbox = await t.create()
  const handle = await sandbox.commands.run('exit 6', { background: true })
  await fails(handle.wait(), CommandExitError)
  const late = await sandbox.commands.connect(handle.pid)
  const e = await fails(late.wait(), CommandExitError)
  equal(e.exitCode, 6)
})

test('disconnect leaves it running; nobody is told of what was said to nobody', async (t) => {
  const sandbox = await t.create()
  const handle = await sandbox.commands.run('echo a; sleep 0.5; echo b > later; echo lost; sleep 1; echo c', {
    background: true,
  })
  await until(() => handle.stdout === 'a\n', 'its output')
  await handle.disconnect()
  await until(() => sandbox.files.exists('later'), 'its work')
  await sleep(100) // the next line is written while no client is connected
  const again = await sandbox.commands.connect(handle.pid)
  const done = await again.wait()
  equal([done.exitCode, done.stdout], [0, 'c\n'])
})

test('timeoutMs: the command is killed and the caller told', async (t) => {
  const sandbox = await t.create()
  const began = Date.now()
  await fails(sandbox.commands.run('echo $$ > pid; sleep 60', { timeoutMs: 700 }), TimeoutError, /timeoutMs/)
  check(Date.now() - began >= 600, 'too early')
  await until(async () => (await sandbox.commands.list()).length === 0, 'its end', 4)
  const pid = (await sandbox.files.read('pid')).trim()
  await until(async () => !(await sandbox.files.exists(`/proc/${pid}`)), 'the end of the process', 4)
})

test('timeoutMs 0 is no limit; a command may outlast its listener’s time', async (t) => {
  const sandbox = await t.create()
  const handle = await sandbox.commands.run('sleep 1.5; echo end', { background: true, timeoutMs: 0 })
  const impatient = await sandbox.commands.connect(handle.pid, { timeoutMs: 300 })
  await fails(impatient.wait(), TimeoutError)
  equal((await handle.wait()).stdout, 'end\n', 'only the listener’s stream ended')
})

test('twenty at a time in one sandbox', async (t) => {
  const sandbox = await t.create()
  const all = await Promise.all(
    Array.from({ length: 20 }, (_, i) =>
      sandbox.commands.run(`echo ${i}; sleep 0.2; exit $((${i} % 2))`).catch((e) => e),
    ),
  )
  equal(
    all.map((r) => [r.stdout, r.exitCode]),
    Array.from({ length: 20 }, (_, i) => [`${i}\n`, i % 2]),
  )
})

test('long and odd command lines', async (t) => {
  const sandbox = await t.create()
  const words = 'x'.repeat(100_000)
  equal((await sandbox.commands.run(`v=${words}; echo \${#v}`)).stdout, '100000\n')
  equal(
    (await sandbox.commands.run(`echo 'it is "quoted"'; echo $'tab\\t'; cat <<'EOF'\n$HOME \`x\`\nEOF`)).stdout,
    'it is "quoted"\ntab\t\n$HOME `x`\n',
  )
  equal((await sandbox.commands.run('')).exitCode, 0)
  await fails(sandbox.commands.run('echo a\0b'), InvalidArgumentError)
  await fails(sandbox.commands.run('#' + 'x'.repeat(300_000)), InvalidArgumentError)
  equal((await sandbox.commands.run('echo still here')).stdout, 'still here\n')
})

await run()
