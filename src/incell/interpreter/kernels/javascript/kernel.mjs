// kernel.mjs - runs cells of JavaScript, or of TypeScript with --typescript. Started by cordon-interpreter.
//
// Descriptor 3 is a socket to the server, one JSON object per line each way; 1 and 2 are pipes to it.
//
// Cells are evaluated by V8's inspector in its REPL mode: this gives what a notebook needs (state between cells, const
// and class declared again, top-level await, the value of the last statement) without a parser of ours, which node's
// modules vm and repl do not.
//
// Two threads: cells run on the main thread, where everything behaves as users know it. The second thread (control, at
// the end) reads the requests, so that an interrupt is seen while a cell loops, and has the inspector terminate the
// loop; node cannot do this by a signal.
//
// What must not change: only the main thread writes to descriptor 3, so that lines stay whole; every execute request is
// answered by one `done`; and the kernel dies with its server (end of file on 3), whatever the main thread does.
import { closeSync, openSync, writeSync } from 'node:fs'
import { Session } from 'node:inspector'
import { builtinModules, createRequire } from 'node:module'
import { Socket } from 'node:net'
import { join, resolve } from 'node:path'
import { StringDecoder } from 'node:string_decoder'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import vm from 'node:vm'
import { Worker, isMainThread, parentPort } from 'node:worker_threads'
import { IMPORT, META, scriptOf } from './cell.mjs'
import { withoutTypes } from './typescript.mjs'
import { describe, errorOf, makeDisplay, resultOf } from './values.mjs'

const LINK = 3
const PART_MAX = 1 << 16 // characters of output in one message
const PATIENCE = 100 // ms after which a main thread that gives no answer is taken for busy
const typescript = process.argv.includes('--typescript')

// --- sending

const { stringify } = JSON // the cells' JSON may be another

function escaped(run) {
  let out = ''
  for (let i = 0; i < run.length; i++) out += '\\u' + run.charCodeAt(i).toString(16).padStart(4, '0')
  return out
}

function send(message) {
  const bare = Object.assign(Object.create(null), message) // whatever cells give to all objects
  const text = stringify(bare).replace(/[\u007f-\uffff]+/g, escaped)
  const bytes = Buffer.from(text + '\n', 'latin1')
  for (let done = 0; done < bytes.length;) {
    try {
      done += writeSync(LINK, bytes, done)
    } catch (e) {
      if (e.code !== 'EAGAIN') process.kill(process.pid, 'SIGKILL') // the server is gone
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1) // it reads no faster than its client does
    }
  }
}

// console.log and process.stdout.write become messages at once: so both streams keep their order.
function redirect(stream, type) {
  const decoder = new StringDecoder('utf8')
  stream.write = (chunk, encoding, done) => {
    const text = typeof chunk === 'string' ? chunk : decoder.write(Buffer.from(chunk))
    for (let i = 0; i < text.length; i += PART_MAX) send({ type, text: text.slice(i, i + PART_MAX) })
    const then = typeof encoding === 'function' ? encoding : done
    if (then) process.nextTick(then)
    return true
  }
}

// --- the environment of one call

// Returns what was there before.
function setEnv(env) {
  const before = {}
  for (const [name, value] of Object.entries(env)) {
    before[name] = process.env[name]
    process.env[name] = value
  }
  return before
}

function resetEnv(before) {
  for (const [name, value] of Object.entries(before)) {
    if (value === undefined) delete process.env[name]
    else process.env[name] = value
  }
}

// --- evaluating a cell

const session = new Session()
const inspector = (method, params) =>
  new Promise((done, failed) => session.post(method, params, (e, got) => (e ? failed(e) : done(got))))

let lent // the value that the inspector passes to lend()
let lendId
const lend = (value) => void (lent = value)

async function prepareInspector() {
  session.connect()
  const name = Symbol.for('cordon lend')
  globalThis[name] = lend
  lendId = (await inspector('Runtime.evaluate', { expression: "globalThis[Symbol.for('cordon lend')]" })).result.objectId
  delete globalThis[name]
}

// The value itself, of which the inspector has given a description.
async function valueOf({ objectId, unserializableValue, value }) {
  const argument = objectId ? { objectId } : unserializableValue ? { unserializableValue } : { value }
  const functionDeclaration = 'function (value) { this(value) }'
  await inspector('Runtime.callFunctionOn', { objectId: lendId, functionDeclaration, arguments: [argument] })
  const found = lent
  lent = undefined
  return { found } // in an object, so that a promise stays what it is
}

const rejected = new Set() // promises that were rejected and not handled so far

// A promise as last value is waited for, and its value is the result.
async function showValue(given, silent) {
  rejected.delete(given)
  const value = await given
  if (value !== undefined && !silent) send(await resultOf(value, true))
}

async function evaluate(cell, code, name, silent) {
  const expression = scriptOf(typescript ? withoutTypes(code) : code, name)
  const options = { expression, replMode: true, awaitPromise: true, objectGroup: 'cell' }
  const { result, exceptionDetails: failure } = await inspector('Runtime.evaluate', options)
  const { found } = await valueOf(failure?.exception ?? result)
  if (!failure) return showValue(found, silent)
  fail(cell, describe(found, `\n    at ${name}:${failure.lineNumber + 1}:${failure.columnNumber + 1}`))
}

// --- one request after the other

let count = 0
let running = null // { id, before, failed }

async function execute({ id, code, env = {}, silent = false }) {
  const cell = { id, before: setEnv(env), failed: false }
  running = cell
  if (!silent) count += 1
  if (!silent) send({ type: 'count', execution_count: count })
  try {
    await evaluate(cell, code, `cell-${count}.js`, silent)
  } catch (e) {
    fail(cell, e.code === 'ERR_INSPECTOR_COMMAND' ? interrupted() : describe(e))
  }
  end(cell)
}

// An execution has one error; one that was given up has had it.
function fail(cell, error) {
  if (running !== cell || cell.failed) return
  cell.failed = true
  send(error)
}

function end(cell) {
  if (running !== cell) return // interrupted, and ended then
  running = null
  resetEnv(cell.before)
  session.post('Runtime.releaseObjectGroup', { objectGroup: 'cell' })
  send({ type: 'done', id: cell.id })
  control.postMessage('ended')
}

const interrupted = () => errorOf('Interrupted', 'the execution was interrupted')

function abandon(id) {
  if (running === null || running.id !== id) return
  fail(running, interrupted())
  end(running)
}

function take(request) {
  if (request === 'ping') control.postMessage('pong')
  else if (request.op === 'abandon') abandon(request.id)
  else if (request.op === 'env') setEnv(request.env)
  else void execute(request)
}

// --- what cells find

// import() as if it stood in a file in the working directory.
function importer() {
  const loader = vm.constants?.USE_MAIN_CONTEXT_DEFAULT_LOADER
  const base = () => join(process.cwd(), 'cell.js')
  if (loader) {
    const script = () => new vm.Script('(what, how) => import(what, how)', { filename: base(), importModuleDynamically: loader })
    const warn = process.emitWarning
    process.emitWarning = () => {} // that it is experimental, which is said once
    void script().runInThisContext()('node:fs')
    process.emitWarning = warn
    return (...args) => script().runInThisContext()(...args)
  }
  return (what, how) => {
    if (/^\.{0,2}\//.test(what)) return import(pathToFileURL(resolve(what)), how)
    if (/^[a-z]+:/.test(what) || builtinModules.includes(what)) return import(what, how)
    return import(pathToFileURL(createRequire(base()).resolve(what)), how)
  }
}

function define(name, value) {
  Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false })
}

function prepareGlobals() {
  const file = join(process.cwd(), 'cell.js')
  const require = createRequire(file)
  define('require', require)
  define('module', { exports: {} })
  define('exports', globalThis.module.exports)
  define('display', makeDisplay(send))
  define('$$', globalThis.display)
  define(IMPORT, importer())
  define(META, Object.freeze({ url: pathToFileURL(file).href, filename: file, dirname: process.cwd() }))
  // Modules of node by their names, as in its REPL.
  for (const name of builtinModules.filter((name) => /^[a-z]\w*$/.test(name) && !(name in globalThis))) {
    const get = () => require(name)
    const set = (value) => define(name, value)
    Object.defineProperty(globalThis, name, { get, set, configurable: true, enumerable: false })
  }
}

// Errors of timers and of promises that are not waited for are printed, and end nothing.
function prepareErrors() {
  const tell = (e) => process.stderr.write(`${describe(e).traceback.replace(/^(?!Uncaught )/, 'Uncaught ')}\n`)
  process.setUncaughtExceptionCaptureCallback(tell)
  process.on('unhandledRejection', async (reason, promise) => {
    rejected.add(promise)
    await sleep(10) // the promise may be the cell's value
    if (rejected.delete(promise)) tell(reason)
  })
  process.on('rejectionHandled', (promise) => rejected.delete(promise))
}

function exit(code = process.exitCode ?? 0) {
  send(errorOf('ProcessExit', `process.exit(${code}) ended the context: its variables are gone`))
  closeSync(2)
  openSync('/dev/null', 'w') // as 2: node writes there that it waits for a debugger
  process.kill(process.pid, 'SIGKILL') // at once: node would wait for the inspector's sessions
}

let control // the other thread

async function main() {
  redirect(process.stdout, 'stdout')
  redirect(process.stderr, 'stderr')
  process.on('SIGINT', () => {}) // see interrupt()
  process.exit = exit
  prepareErrors()
  prepareGlobals()
  await prepareInspector()
  control = new Worker(fileURLToPath(import.meta.url))
  control.on('message', take)
  send({ type: 'ready' })
}

// --- the thread that reads requests

const requests = [] // the first one is running
const answer = { pong() {} }
let watcher

// Whether the main thread waits for something, so that it can answer.
function waits() {
  const pong = new Promise((done) => (answer.pong = () => done(true)))
  parentPort.postMessage('ping')
  return Promise.race([pong, sleep(PATIENCE)])
}

// A main thread that waits gives the cell up when it is told. If not, a program that the cell waits for may have begun
// after the server's signal; else code runs, which is terminated, as often as it takes. (`for (;;) await null` is not
// terminated by node 22 and newer: the server kills such a kernel.) The cell may end by itself at any time, and the
// next one may begin: whatever is done after a wait is done only while the same cell is the first request.
async function interrupt() {
  const interrupted = requests[0]
  const runs = () => interrupted && requests[0] === interrupted
  const abandon = () => parentPort.postMessage({ op: 'abandon', id: interrupted.id })
  while (runs()) {
    if (await waits()) return runs() && abandon()
    if (!runs()) return
    process.kill(0, 'SIGINT')
    if (await waits()) return runs() && abandon()
    if (!runs()) return
    await new Promise((done) => watcher.post('Runtime.terminateExecution', done))
  }
}

function next() {
  if (requests.length > 0) parentPort.postMessage(requests[0])
}

function receive(request) {
  if (request.op === 'interrupt') return void interrupt()
  if (request.op === 'env') return parentPort.postMessage(request)
  if (requests.push(request) === 1) next()
}

function read() {
  watcher = new Session()
  watcher.connectToMainThread()
  parentPort.on('message', (what) => {
    if (what === 'pong') return answer.pong()
    requests.shift()
    next()
  })
  const link = new Socket({ fd: LINK, readable: true, writable: false })
  link.on('close', () => process.kill(process.pid, 'SIGKILL'))
  link.setEncoding('utf8')
  let begun = [] // pieces of a line
  link.on('data', (text) => {
    const ends = text.split('\n')
    for (const part of ends.splice(0, ends.length - 1)) {
      receive(JSON.parse(begun.join('') + part))
      begun = []
    }
    begun.push(ends[0])
  })
}

if (isMainThread) await main()
else read()
