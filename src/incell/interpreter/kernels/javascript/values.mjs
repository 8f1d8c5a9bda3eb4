// values.mjs - what is shown of a value or of an error: objects of the kernel's protocol. Called by kernel.mjs on the
// main thread with whatever the user's code came to: getters and methods of these values may run and may throw.
import { inspect } from 'node:util'

const TEXT_MAX = 1 << 20 // characters of a value's text
const JSON_MAX = 8 << 20

const FIELDS = {
  'text/plain': 'text',
  'text/html': 'html',
  'text/markdown': 'markdown',
  'image/svg+xml': 'svg',
  'image/png': 'png',
  'image/jpeg': 'jpeg',
  'application/pdf': 'pdf',
  'text/latex': 'latex',
  'application/json': 'json',
  'application/javascript': 'javascript',
}

const short = (text) => (text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}... (${text.length} characters)` : text)

function isPlain(value) {
  if (Array.isArray(value)) return true
  const kind = value !== null && typeof value === 'object' && Object.getPrototypeOf(value)
  return kind === Object.prototype || kind === null
}

// What JSON can say of it, or undefined.
function jsonOf(value) {
  try {
    const text = JSON.stringify(value)
    return text === undefined || text.length > JSON_MAX ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}

const METHODS = { _toHtml: 'text/html', _toSvg: 'image/svg+xml', _toPng: 'image/png', _toJpeg: 'image/jpeg' }

// { MIME type: data } that the value offers of itself: as Deno's notebooks and as ijavascript have it.
async function offered(value) {
  const show = Symbol.for('Jupyter.display')
  if (typeof value?.[show] === 'function') return value[show]()
  if (typeof value?._toMime === 'function') return value._toMime()
  const found = {}
  for (const [method, mime] of Object.entries(METHODS)) {
    if (typeof value?.[method] === 'function') found[mime] = await value[method]()
  }
  return found
}

const base64 = (data) => (data instanceof Uint8Array ? Buffer.from(data).toString('base64') : data)

function bundle(types) {
  const fields = {}
  for (const [mime, data] of Object.entries(types)) {
    if (mime in FIELDS) fields[FIELDS[mime]] = base64(data)
    else (fields.extra ??= {})[mime] = base64(data)
  }
  return fields
}

export async function resultOf(value, main) {
  const fields = bundle((await offered(value)) ?? {})
  fields.text ??= short(inspect(value))
  if (isPlain(value)) fields.json ??= jsonOf(value)
  return { type: 'result', is_main_result: main, ...fields }
}

// display(value), display.html('<b>'), display.mime({ 'text/latex': 'x' }) in the user's code.
export function makeDisplay(send) {
  const display = async (value) => send(await resultOf(value, false))
  display.mime = (types) => send({ type: 'result', is_main_result: false, ...bundle(types) })
  for (const [mime, field] of Object.entries(FIELDS)) display[field] = (data) => display.mime({ [mime]: data })
  return display
}

export const errorOf = (name, value, traceback) => ({
  type: 'error',
  name,
  value,
  traceback: traceback ?? `${name}: ${value}`,
})

// Frames of node and of the kernel, which are below those of the cell.
const OURS = /^\s+at .*(?:node:inspector|node:events|node:internal|kernels\/javascript\/|\(<anonymous>\)$)/

function stackOf(error) {
  const stack = typeof error.stack === 'string' ? error.stack : `${error.name}: ${error.message}`
  const cause = error.cause === undefined ? '' : `\n[cause]: ${inspect(error.cause)}`
  return stack.split('\n').filter((line) => !OURS.test(line)).join('\n') + cause
}

// Anything can be thrown. `place` is where the inspector saw it, for syntax errors, whose stack does not have it.
export function describe(thrown, place = '') {
  if (thrown?.cell) return errorOf(thrown.name, thrown.message, thrown.cell) // of withoutTypes()
  if (!(thrown instanceof Error)) {
    const text = short(inspect(thrown))
    return errorOf('Error', text, `Uncaught ${text}${place}`)
  }
  const stack = short(stackOf(thrown))
  const lacks = thrown.name === 'SyntaxError' && !/^\s+at /m.test(stack)
  return errorOf(String(thrown.name), String(thrown.message), lacks ? stack + place : stack)
}
