// Perfetto's trace processor, as WebAssembly, behind the HTTP endpoints that its Python package uses:
//   node engine.mjs FOLDER
// FOLDER holds `engine_bundle.js` and the `.wasm` files beside it. Prints the port on 127.0.0.1, serves until standard input ends.
//
// The bundle was made for a worker of a browser: it expects `self`, is given one message port, and speaks
// TraceProcessorRpcStream on it (protos/perfetto/trace_processor/trace_processor.proto; field numbers never change).
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import vm from 'node:vm';

const folder = process.argv[2];

// TraceProcessorRpc: its fields, and the methods that `request` names.
const [SEQ, REQUEST, RESPONSE] = [1, 2, 3];
const APPEND = { method: 1, args: 101, result: 201 };
const FINALIZE = { method: 2, args: null, result: 212 };
const QUERY = { method: 3, args: 103, result: 203 };
const STATUS = { method: 10, args: null, result: 210 };
const [ERROR, INVALID] = [5, 4];

const varint = (value) => {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
};
const number = (field, value) => Buffer.concat([varint(field * 8), varint(value)]);
const content = (field, bytes) => Buffer.concat([varint(field * 8 + 2), varint(bytes.length), bytes]);

/** The fields of a message: numbers of type varint as numbers, everything of a length as bytes. */
function fields(bytes) {
  const found = [];
  let at = 0;
  const next = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = next();
    const [field, type] = [Math.floor(key / 8), key % 8];
    if (type === 0) found.push([field, next()]);
    else if (type === 2) { const length = next(); found.push([field, bytes.subarray(at, at += length)]); }
    else if (type === 1) at += 8;
    else if (type === 5) at += 4;
    else throw new Error(`wire type ${type}`);
  }
  return found;
}

/** Synchronous replacement of the XMLHttpRequest with which the bundle fetches its WebAssembly. */
class FromFolder {
  open(_method, name) { this.name = name.split('/').pop(); }
  send() { this.response = readFileSync(join(folder, this.name)); }
}

/** Starts the bundle as if in a worker; returns its message port. */
async function start() {
  const self = { location: { href: 'http://127.0.0.1/engine_bundle.js' } };
  const names = {
    self, location: self.location, console: { log() {}, warn() {}, error: console.error }, WorkerGlobalScope: Object, importScripts() {}, XMLHttpRequest: FromFolder, process: undefined, require: undefined,
  };
  const bundle = readFileSync(join(folder, 'engine_bundle.js'), 'utf8');
  vm.runInThisContext(`(function (${Object.keys(names).join(', ')}) {${bundle}\n})`, { filename: 'engine_bundle.js' })(...Object.values(names));
  const { port1, port2 } = new MessageChannel();
  self.onmessage({ data: port2 });
  // The engine is given its way to answer in a task of its own, which comes before this one.
  await new Promise((done) => { setImmediate(done); });
  return port1;
}

const engine = await start();
let seq = 0;
let unread = Buffer.alloc(0);
let answered = () => {};

engine.on('message', (bytes) => {
  unread = Buffer.concat([unread, bytes]);
  // A stream is a sequence of messages in field 1; the engine ends each reply with a whole one.
  const all = fields(unread);
  unread = Buffer.alloc(0);
  for (const [, message] of all) answered(fields(message));
});

/** Sends one request to the engine; resolves to its reply, with the batches of a query concatenated. */
function ask({ method, args, result }, body) {
  const request = Buffer.concat([number(SEQ, ++seq), number(REQUEST, method), args === null ? Buffer.alloc(0) : content(args, body)]);
  const parts = [];
  return new Promise((resolve, reject) => {
    answered = (message) => {
      const fieldsByNumber = new Map(message);
      if (fieldsByNumber.has(ERROR) || fieldsByNumber.has(INVALID)) reject(new Error(`the engine refused: ${fieldsByNumber.get(ERROR) ?? fieldsByNumber.get(INVALID)}`));
      if (fieldsByNumber.get(RESPONSE) !== method) return;
      const part = fieldsByNumber.get(result) ?? Buffer.alloc(0);
      parts.push(part);
      if (method !== QUERY.method || isLast(part)) resolve(Buffer.concat(parts));
    };
    engine.postMessage(new Uint8Array(content(1, request)));
  });
}

/** QueryResult.batch is 3, CellsBatch.is_last_batch 6; a result with an error (2) has no batch. */
function isLast(result) {
  const of = fields(result);
  return of.some(([field]) => field === 2) || of.some(([field, batch]) => field === 3 && fields(batch).some(([inner, value]) => inner === 6 && value === 1));
}

const ENDPOINTS = { '/status': STATUS, '/parse': APPEND, '/notify_eof': FINALIZE, '/query': QUERY };
// The engine answers in order and one thing at a time.
let queue = Promise.resolve();
const server = createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const endpoint = ENDPOINTS[request.url];
    if (endpoint === undefined) { response.writeHead(404).end(); return; }
    queue = queue.then(() => ask(endpoint, Buffer.concat(chunks)))
      .then((body) => response.writeHead(200, { 'content-length': body.length }).end(body), (why) => { process.stderr.write(`${why.stack}\n`); response.writeHead(500).end(); });
  });
});
server.listen(0, '127.0.0.1', () => process.stdout.write(`${server.address().port}\n`));
process.stdin.on('end', () => process.exit(0)).resume();
