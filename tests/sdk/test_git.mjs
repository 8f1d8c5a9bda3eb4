// The git helper: every method, on repositories inside the sandbox.
// server: pool_size=2
import { check, e2b, equal, fails, matches, run, test, until } from './harness.mjs'

const { CommandExitError, GitAuthError, GitUpstreamError, InvalidArgumentError } = e2b

async function repository(t) {
  const sandbox = await t.create()
  const { git, files } = sandbox
  await git.init('repo', { initialBranch: 'main' })
  await git.configureUser('Ada', 'ada@example.org')
  await files.write('repo/a.txt', 'one\n')
  await git.add('repo')
  await git.commit('repo', 'first "commit"')
  return sandbox
}

test('init, status, add, commit', async (t) => {
  const sandbox = await t.create()
  const { git, files } = sandbox
  await git.init('repo', { initialBranch: 'main' })
  await files.write('repo/a.txt', 'one\n')
  const fresh = await git.status('repo')
  equal([fresh.currentBranch, fresh.isClean, fresh.hasUntracked, fresh.untrackedCount], ['main', false, true, 1])
  equal(
    fresh.fileStatus.map((f) => [f.name, f.status, f.staged]),
    [['a.txt', 'untracked', false]],
  )
  await git.add('repo', { files: ['a.txt'] })
  equal((await git.status('repo')).stagedCount, 1)
  await git.commit('repo', "it's the first", { authorName: 'Ada L', authorEmail: 'ada@example.org' })
  equal((await git.status('repo')).isClean, true)
  equal(
    (await sandbox.commands.run('git -C repo log --format="%an <%ae> %s"')).stdout,
    "Ada L <ada@example.org> it's the first\n",
  )
  await fails(git.commit('repo', 'nothing'), CommandExitError)
  await git.commit('repo', 'empty', { allowEmpty: true, authorName: 'B', authorEmail: 'b@example.org' })
})

test('branches', async (t) => {
  const { git } = await repository(t)
  await git.createBranch('repo', 'topic')
  equal(await git.branches('repo'), { branches: ['main', 'topic'], currentBranch: 'topic' })
  await git.checkoutBranch('repo', 'main')
  equal((await git.branches('repo')).currentBranch, 'main')
  await git.deleteBranch('repo', 'topic')
  equal((await git.branches('repo')).branches, ['main'])
  await fails(git.checkoutBranch('repo', 'none'), CommandExitError)
  await git.createBranch('repo', 'ahead')
  await git.commit('repo', 'x', { allowEmpty: true })
  await git.checkoutBranch('repo', 'main')
  await fails(git.deleteBranch('repo', 'ahead'), CommandExitError)
  await git.deleteBranch('repo', 'ahead', { force: true })
})

test('reset and restore', async (t) => {
  const { git, files } = await repository(t)
  await files.write('repo/a.txt', 'changed\n')
  await git.add('repo')
  await git.restore('repo', { paths: ['a.txt'], staged: true })
  const status = await git.status('repo')
  equal([status.hasStaged, status.fileStatus[0].status], [false, 'modified'])
  await git.restore('repo', { paths: ['a.txt'] })
  equal(await files.read('repo/a.txt'), 'one\n')
  await files.write('repo/a.txt', 'again\n')
  await git.reset('repo', { mode: 'hard', target: 'HEAD' })
  equal(await files.read('repo/a.txt'), 'one\n')
  await fails(git.reset('repo', { mode: 'soggy' }), InvalidArgumentError)
  await fails(git.restore('repo', { paths: [] }), InvalidArgumentError)
})

test('remotes, push, pull and clone', async (t) => {
  const { git, files, commands } = await repository(t)
  await git.init('/home/user/origin.git', { bare: true, initialBranch: 'main' })
  equal(await git.remoteGet('repo', 'origin'), undefined)
  await git.remoteAdd('repo', 'origin', '/home/user/origin.git')
  await fails(git.remoteAdd('repo', 'origin', '/elsewhere'), CommandExitError)
  await git.remoteAdd('repo', 'origin', '/home/user/origin.git', { overwrite: true, fetch: true })
  equal(await git.remoteGet('repo', 'origin'), '/home/user/origin.git')
  await fails(git.pull('repo'), GitUpstreamError)
  await fails(git.push('repo'), GitUpstreamError)
  await git.push('repo', { remote: 'origin', branch: 'main' })
  equal((await git.status('repo')).upstream, 'origin/main')
  await git.clone('/home/user/origin.git', { path: 'copy', branch: 'main' })
  equal(await files.read('copy/a.txt'), 'one\n')
  await files.write('copy/b.txt', 'two\n')
  await git.add('copy')
  await git.commit('copy', 'second')
  equal((await git.status('copy')).ahead, 1)
  await git.push('copy')
  await git.pull('repo')
  equal(await files.read('repo/b.txt'), 'two\n')
  await git.pull('repo', { remote: 'origin', branch: 'main' })
  await git.clone('file:///home/user/origin.git', { path: 'shallow', depth: 1 })
  equal((await commands.run('git -C shallow rev-list --count HEAD')).stdout, '1\n')
  await fails(git.clone('/home/user/none.git'), CommandExitError)
})

test('configuration', async (t) => {
  const { git } = await repository(t)
  equal(await git.getConfig('user.name'), 'Ada')
  equal(await git.getConfig('user.none'), undefined)
  await git.setConfig('user.name', 'Local', { scope: 'local', path: 'repo' })
  equal(await git.getConfig('user.name', { scope: 'local', path: 'repo' }), 'Local')
  equal(await git.getConfig('user.name'), 'Ada')
  await fails(git.setConfig('', 'x'), InvalidArgumentError)
  await fails(git.getConfig('user.name', { scope: 'local' }), InvalidArgumentError)
  await fails(git.configureUser('', 'x@example.org'), InvalidArgumentError)
})

test('credentials: asked for, stored, stripped', async (t) => {
  const sandbox = await repository(t)
  const { git, files, commands } = sandbox
  const asks = `
from http.server import *
class Asks(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401); self.send_header("WWW-Authenticate", "Basic"); self.send_header("Content-Length", "0"); self.end_headers()
HTTPServer(("127.0.0.1", 8418), Asks).serve_forever()`
  await files.write('asks.py', asks)
  await commands.run('/usr/bin/python3 asks.py', { background: true, timeoutMs: 0 })
  await until(
    async () =>
      (await commands.run('curl -s -o /dev/null -w "%{http_code}" http://127.0.0.1:8418/ || true')).stdout === '401',
    'the server',
  )
  const url = 'http://127.0.0.1:8418/private.git'
  await fails(git.clone(url, { path: 'p' }), GitAuthError)
  await fails(git.clone(url, { path: 'p', username: 'u', password: 'wrong' }), GitAuthError)
  await fails(git.clone(url, { path: 'p', password: 'alone' }), InvalidArgumentError)
  await git.remoteAdd('repo', 'origin', url)
  await fails(git.push('repo', { remote: 'origin', branch: 'main' }), GitAuthError)
  await fails(
    git.push('repo', { remote: 'origin', branch: 'main', username: 'u', password: 'secret' }),
    CommandExitError,
  )
  await fails(
    git.pull('repo', { remote: 'origin', branch: 'main', username: 'u', password: 'secret' }),
    CommandExitError,
  )
  equal(await git.remoteGet('repo', 'origin'), url, 'no credentials stay in the address')
  await git.dangerouslyAuthenticate({ username: 'u', password: 'p', host: '127.0.0.1:8418', protocol: 'http' })
  matches(await files.read('~/.git-credentials'), /^http:\/\/u:p@127\.0\.0\.1/)
  check((await git.getConfig('credential.helper')) === 'store', 'the helper is set')
})

await run()
