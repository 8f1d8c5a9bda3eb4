// read.js - reads requests of OTLP/HTTP in JSON by the OpenTelemetry project's own definitions of the protocol:
//   node read.js PACKAGES FILE
// FILE has lines {"path", "body"}. Each body must be a message with no member that the definitions do not have, and
// must be the same after it was written and read as protobuf.
const fs = require('fs')
const path = require('path')
const assert = require('assert')
const [packages, file] = process.argv.slice(2)
const root = require(path.resolve(packages, 'node_modules/@opentelemetry/otlp-transformer/build/src/generated/root.js'))
const { collector } = root.opentelemetry.proto
const types = {
  '/v1/logs': collector.logs.v1.ExportLogsServiceRequest,
  '/v1/traces': collector.trace.v1.ExportTraceServiceRequest,
  '/v1/metrics': collector.metrics.v1.ExportMetricsServiceRequest,
}
const ids = new Set(['traceId', 'spanId', 'parentSpanId'])

// Ids are hexadecimal in OTLP's JSON, and bytes in messages. eventName is newer than these definitions.
function bytes(v, key) {
  if (Array.isArray(v)) return v.map((one) => bytes(one))
  if (v !== null && typeof v === 'object')
    return Object.fromEntries(Object.entries(v).filter(([k]) => k !== 'eventName').map(([k, one]) => [k, bytes(one, k)]))
  if (ids.has(key)) {
    assert.match(v, /^([0-9a-f]{16}|[0-9a-f]{32})$/)
    return Buffer.from(v, 'hex').toString('base64')
  }
  return v
}

let n = 0
for (const line of fs.readFileSync(file, 'utf8').split('\n').filter(Boolean)) {
  const { path: where, body } = JSON.parse(line)
  const type = types[where]
  const wanted = bytes(body)
  const message = type.decode(type.encode(type.fromObject(wanted)).finish())
  const got = type.toObject(message, { longs: String, bytes: String, enums: Number })
  assert.deepStrictEqual(plain(got), plain(wanted), where)
  n++
}

// Protobuf leaves out what is zero or empty, as text or number.
function plain(v) {
  if (Array.isArray(v)) return v.map(plain)
  if (v === null || typeof v !== 'object') return typeof v === 'number' ? v : String(v)
  const found = {}
  for (const [k, one] of Object.entries(v)) {
    const inner = plain(one)
    if (inner === 0 || inner === '0' || inner === '' || inner === 'false' || (Array.isArray(inner) && inner.length === 0)) continue
    found[k] = inner
  }
  return found
}
assert(n > 0, 'no requests')
console.log(`${n} requests`)
