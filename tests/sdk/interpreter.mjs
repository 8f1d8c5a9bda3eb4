// interpreter.mjs - what the tests of runCode share: @e2b/code-interpreter as it comes, and which languages there are.
import { equal, interpreter, level, load, patience, request } from './harness.mjs'

export const { Sandbox } = load('@e2b/code-interpreter')

const PROGRAMS = { python: 'python3', javascript: 'node', typescript: 'esbuild', bash: 'bash', r: 'Rscript', java: 'java' }

// A sandbox with the interpreter: of the default template, which is code-interpreter-v1, or of one that has the level of the suite.
export async function start(t, options = {}) {
  const all = { timeoutMs: 240_000 * patience, requestTimeoutMs: 60_000 * patience, ...options }
  const sandbox = t.keep(await (level === 'container' ? Sandbox.create(all) : Sandbox.create(interpreter, all)))
  const { json } = await request('GET', `/v1/sessions/${sandbox.sandboxId}`, { headers: { 'X-API-Key': process.env.E2B_API_KEY } })
  equal(json.level, level, 'its level')
  return sandbox
}

// Skips the test where cells do not have the language.
export async function need(t, sandbox, language) {
  const program = PROGRAMS[language]
  const { stdout } = await sandbox.commands.run(`command -v ${program} || true`)
  if (stdout === '') t.skip(`${language}: no ${program} on this machine`)
}

// Skips where a module of Python is missing.
export async function needModule(t, sandbox, name) {
  const { stdout } = await sandbox.commands.run(`python3 -c 'import ${name}; print(1)' 2>/dev/null || true`)
  if (stdout === '') t.skip(`no ${name} for python3 on this machine`)
}

// The execution's output as one text, without error.
export function printed(execution) {
  equal(execution.error, undefined, 'error')
  return execution.logs.stdout.join('')
}

// The text of the main result, without error.
export function value(execution) {
  equal(execution.error, undefined, 'error')
  return execution.text
}
