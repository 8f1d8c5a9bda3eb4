// Template.build and the CLI's template commands, as they come from npm.
// server: pool_size=2 build_max=4
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { check, e2b, equal, fails, matches, resolve, run, test, until, within } from './harness.mjs'

const { BuildError, Template, waitForFile } = e2b
const folder = mkdtempSync(join(process.env.SDK_FOLDER, 'build-'))
process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
mkdirSync(join(folder, 'folder/sub'), { recursive: true })
writeFileSync(join(folder, 'folder/a.txt'), 'a')
writeFileSync(join(folder, 'folder/sub/b.txt'), 'b')
writeFileSync(join(folder, 'folder/skip.log'), 'no')
writeFileSync(join(folder, 'one.txt'), 'one')
writeFileSync(join(folder, '.dockerignore'), '*.log\n**/*.log\n')
symlinkSync('a.txt', join(folder, 'folder/link'))
symlinkSync('/etc/hostname', join(folder, 'folder/absolute'))

const quiet = { onBuildLogs: () => {} }
const here = { fileContextPath: folder }

async function said(t, name, command) {
  const box = await t.create(name)
  return (await box.commands.run(command)).stdout.trim()
}

test(
  'steps, users, environment',
  async (t) => {
    const logs = []
    const template = Template(here)
      .fromTemplate('base')
      .setEnvs({ GREETING: 'hello', WHOM: 'world' })
      .runCmd('echo "$GREETING $WHOM" >greeting; id -un >who')
      .runCmd(['id -un >/as-root', 'true'], { user: 'root' })
      .makeDir('/data', { mode: 0o755, user: 'root' })
      .setWorkdir('/work')
      .runCmd('pwd >/home/user/where')
      .setUser('root')
    const built = await Template.build(template, 'sdk-steps', { onBuildLogs: (e) => logs.push(e.message), memoryMB: 512 })
    equal([built.name, built.tags], ['sdk-steps', ['default']])
    check(logs.some((m) => /Build finished/.test(m)), JSON.stringify(logs.slice(-5)))
    equal(
      (await said(t, 'sdk-steps', 'cd /home/user; cat greeting who where /as-root; id -un; pwd; echo $GREETING; stat -c %a /data')).split('\n'),
      ['hello world', 'user', '/work', 'root', 'root', '/home/user', 'hello', '755'],
    )
    equal(await said(t, built.templateId, 'pwd'), '/work')
    equal(await Template.exists('sdk-steps'), true)
    equal(await Template.exists('sdk-nothing'), false)
  },
  { seconds: 60 },
)

test(
  'copy with globs, links, modes',
  async (t) => {
    const template = Template(here)
      .fromImage('e2bdev/base')
      .copy('folder/*', 'globbed')
      .copy('one.txt', '/opt/there/', { user: 'root', mode: 0o640 })
      .copy('folder', '/all', { resolveSymlinks: false })
      .copyItems([{ src: 'one.txt', dest: 'renamed.txt' }])
    await Template.build(template, 'sdk-copy', quiet)
    equal(
      (
        await said(
          t,
          'sdk-copy',
          'ls globbed globbed/sub; cat globbed/a.txt globbed/sub/b.txt renamed.txt; echo; sudo stat -c "%a %U" /opt/there/one.txt; readlink /all/link /all/absolute; stat -c %U renamed.txt',
        )
      ).split('\n'),
      ['globbed:', 'a.txt', 'absolute', 'link', 'sub', '', 'globbed/sub:', 'b.txt', 'abone', '640 root', 'a.txt', '/etc/hostname', 'user'],
    )
  },
  { seconds: 60 },
)

test(
  'a failure has its message and its step',
  async () => {
    const template = Template().fromTemplate('base').runCmd('true').runCmd('echo why >&2; exit 5')
    const e = await fails(Template.build(template, 'sdk-bad', quiet), BuildError, /exit status 5/, 40)
    matches(e.stack, /test_build/)
    await fails(
      Template.build(Template().fromTemplate('base').runCmd('whoami', { user: 'root123' }), 'sdk-bad', quiet),
      BuildError,
      /invalid username: 'root123'/,
      40,
    )
    await fails(Template.build(Template().fromTemplate('sdk-none'), 'sdk-bad', quiet), BuildError, /not found/, 40)
  },
  { seconds: 90 },
)

test(
  'start and ready commands',
  async (t) => {
    const template = Template()
      .fromTemplate('base')
      .setStartCmd('sleep 1; touch /tmp/ready; exec sleep 987', waitForFile('/tmp/ready'))
    await Template.build(template, 'sdk-start', quiet)
    equal((await said(t, 'sdk-start', 'ls /tmp/ready; pgrep -xf "sleep 987" | wc -l')).split('\n'), ['/tmp/ready', '1'])
  },
  { seconds: 60 },
)

test(
  'tags',
  async (t) => {
    await Template.build(Template().fromTemplate('base').runCmd('echo 1 >n'), 'sdk-tags:v1', quiet)
    const second = await Template.build(Template().fromTemplate('base').runCmd('echo 2 >n'), 'sdk-tags', { ...quiet, tags: ['v2'] })
    equal(second.tags, ['v2'])
    const got = await Template.assignTags('sdk-tags:v1', ['production', 'default'])
    equal(got.tags, ['production', 'default'])
    equal((await Template.getTags(second.templateId)).map((x) => x.tag), ['default', 'production', 'v1', 'v2'])
    equal([await said(t, 'sdk-tags', 'cat n'), await said(t, 'sdk-tags:v2', 'cat n')], ['1', '2'])
    await Template.removeTags('sdk-tags', 'production')
    equal(await Template.exists('sdk-tags:production'), false)
    equal(await Template.exists('sdk-tags:v2'), true)
  },
  { seconds: 60 },
)

test(
  'in the background, cached, cancelled by deletion',
  async () => {
    const template = Template().fromTemplate('base').runCmd('echo cached >x')
    const data = await Template.buildInBackground(template, 'sdk-back', quiet)
    check((await Template.getBuildStatus(data)).status !== 'waiting', 'it waits')
    const end = await until(async () => {
      const s = await Template.getBuildStatus(data)
      return s.status === 'ready' && s
    }, 'the build', 40, 100)
    equal(end.status, 'ready')
    const logs = []
    await Template.build(template, 'sdk-back', { onBuildLogs: (e) => logs.push(e.message) })
    check(logs.some((m) => m.startsWith('CACHED [builder 1/1] RUN')), JSON.stringify(logs))
    const endless = await Template.buildInBackground(Template().fromTemplate('base').runCmd('sleep 1000'), 'sdk-endless', quiet)
    await cli(['template', 'delete', '-y', endless.templateId])
    await until(() => Template.getBuildStatus(endless).then(() => false, () => true), 'its end', 20)
  },
  { seconds: 90 },
)

// --- the CLI

async function cli(args) {
  const child = spawn(process.execPath, [resolve('@e2b/cli/dist/index.js'), ...args], {
    cwd: folder,
    env: { ...process.env, HOME: folder, NO_COLOR: '1', NO_UPDATE_NOTIFIER: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let out = ''
  child.stdout.on('data', (d) => (out += d))
  child.stderr.on('data', (d) => (out += d))
  const code = await within(new Promise((done) => child.on('close', done)), 60, `e2b ${args.join(' ')}`)
  check(code === 0, `e2b ${args.join(' ')}: ${code} ${out}`)
  return out
}

test(
  'e2b template create, list, publish, delete',
  async (t) => {
    writeFileSync(
      join(folder, 'e2b.Dockerfile'),
      'FROM e2bdev/base\nENV A=one\nWORKDIR /srv\nCOPY one.txt .\nRUN echo "$A" >two.txt\n',
    )
    matches(await cli(['template', 'create', 'sdk-cli', '-d', 'e2b.Dockerfile']), /sdk-cli|finished|built/i)
    equal(await said(t, 'sdk-cli', 'cat /srv/one.txt; cat /srv/two.txt'), 'oneone')
    const list = JSON.parse(await cli(['template', 'list', '--format', 'json']))
    const found = list.find((x) => x.aliases.includes('sdk-cli'))
    check(found, JSON.stringify(list))
    await cli(['template', 'publish', '-y', found.templateID])
    equal(await Template.exists('sdk-cli'), true)
    await t.end()
    await until(() => cli(['template', 'delete', '-y', found.templateID]).then(() => true, () => false), 'deletion', 20, 500)
    equal(await Template.exists('sdk-cli'), false)
  },
  { seconds: 120 },
)

await run()
