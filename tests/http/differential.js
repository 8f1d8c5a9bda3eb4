// What llhttp, inside node, reads of the cases that verdict.c reads; the same output, and "error" with
// its code in place of "bad".
'use strict';
const { HTTPParser } = require('_http_common');
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'CONNECT', 'TRACE'];

function parse(bytes) {
  const done = [];
  let now = null;
  const p = new HTTPParser();
  p.initialize(HTTPParser.REQUEST, {});
  p[HTTPParser.kOnHeaders | 0] = (headers, url) => {
    if (now === null) now = { url: '', headers: 0, body: [] };
    if (!now.complete) {
      now.headers += headers.length / 2;
      now.url += url;
    }
  };
  p[HTTPParser.kOnHeadersComplete | 0] = (major, minor, headers, method, url) => {
    if (now === null) now = { url: '', headers: 0, body: [] };
    now.method = method;
    now.complete = true;
    if (headers !== undefined) now.headers += headers.length / 2;
    if (url !== undefined) now.url += url;
    return 0;
  };
  p[HTTPParser.kOnBody | 0] = (a, offset, length) => {
    now.body.push(offset === undefined ? a : a.slice(offset, offset + length));
  };
  p[HTTPParser.kOnMessageComplete | 0] = () => {
    done.push(now);
    now = null;
  };
  const result = p.execute(Buffer.from(bytes));
  const failed = result instanceof Error;
  p.close();
  return { done, end: failed ? 'error:' + result.code : now === null ? 'end' : 'wait' };
}

const names = {};
for (const m of METHODS) {
  const target = m === 'CONNECT' ? 'x:1' : '/';
  names[parse(`${m} ${target} HTTP/1.1\r\nHost: x\r\n\r\n`).done[0].method] = m;
}

const hex = (s) => Buffer.from(s, 'latin1').toString('hex');
const input = require('fs').readFileSync(0);
const out = [];
for (let at = 0; at < input.length;) {
  const n = input.readUInt32LE(at);
  const { done, end } = parse(input.subarray(at + 4, at + 4 + n));
  const messages = done.map((m) => [hex(names[m.method] || '?'), hex(m.url), m.headers,
    Buffer.concat(m.body).toString('hex')].join(',') + ' ');
  out.push(messages.join('') + end);
  at += 4 + n;
}
process.stdout.write(out.join('\n') + '\n');
