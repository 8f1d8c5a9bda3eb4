// A server that does nothing: it answers what the SDK asks for with constants. What an SDK call costs
// against it is the client's own share, of which no server can save anything. Prints its port.
import http from 'node:http'

const frame = (flags, message) => {
  const body = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt8(flags, 0)
  head.writeUInt32BE(body.length, 1)
  return Buffer.concat([head, body])
}
const sandbox = JSON.stringify({
  templateID: 'base', sandboxID: 'i0000000000000000', clientID: 'x', envdVersion: '0.6.13', envdAccessToken: 'x',
})
const output = Buffer.concat([
  frame(0, { event: { start: { pid: 2 } } }),
  frame(0, { event: { data: { stdout: Buffer.from('ready\n').toString('base64') } } }),
  frame(0, { event: { end: { exitCode: 0, exited: true, status: 'exit status 0' } } }),
  frame(2, {}),
])

const server = http.createServer((request, response) => {
  request.resume()
  request.on('end', () => {
    if (request.method === 'DELETE') response.writeHead(204).end()
    else if (request.url.startsWith('/process.')) {
      response.writeHead(200, { 'content-type': 'application/connect+json' }).end(output)
    } else {
      response.writeHead(201, { 'content-type': 'application/json' }).end(sandbox)
    }
  })
})
server.keepAliveTimeout = 60_000
server.listen(0, '127.0.0.1', () => console.log(server.address().port))
