// Loads a trace into Perfetto's own trace processor, the WebAssembly module of its user interface, and answers SQL
// queries about it. usage: node trace_query.js FOLDER TRACE QUERY ...
// FOLDER holds engine_bundle.js and trace_processor*.wasm. Prints a line of JSON for each query: a list of rows.
"use strict";
const fs = require("fs"), path = require("path");
const [folder, trace, ...queries] = process.argv.slice(2);

// The bundle expects to be a worker of a browser, with files from a server.
const file = (url) => fs.readFileSync(path.join(folder, path.basename(String(url))));
class XMLHttpRequest {
    open(method, url) { this.url = url; }
    send() { this.status = 200; this.response = new Uint8Array(file(this.url)).buffer; }
}
const fetch = async (url) => ({ ok: true, status: 200, url, headers: new Map([["Content-Type", "application/wasm"]]), arrayBuffer: async () => new Uint8Array(file(url)).buffer });
const quiet = { log() {}, info() {}, debug() {}, warn: console.warn, error: console.error };
const self = { location: { href: "http://localhost/engine_bundle.js" } };
const world = { self, console: quiet, fetch, XMLHttpRequest, location: self.location, WorkerGlobalScope: class {}, importScripts() {}, process: undefined };
new Function(...Object.keys(world), fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"))(...Object.values(world));

// Protocol buffers, as far as TraceProcessorRpc needs them.
const varint = (n) => { const out = []; for (; n > 127; n = Math.floor(n / 128)) out.push((n % 128) | 128); out.push(n); return Buffer.from(out); };
const number = (id, n) => Buffer.concat([varint(id * 8), varint(n)]);
const bytes = (id, data) => Buffer.concat([varint(id * 8 + 2), varint(data.length), data]);
function* fields(data) {
    let at = 0;
    const read = () => { let n = 0n, shift = 0n, b; do { b = BigInt(data[at++]); n |= (b & 127n) << shift; shift += 7n; } while (b & 128n); return n; };
    while (at < data.length) {
        const tag = Number(read()), id = tag >> 3;
        if ((tag & 7) === 0) yield [id, BigInt.asIntN(64, read())];
        else if ((tag & 7) === 1) { yield [id, data.readDoubleLE(at)]; at += 8; }
        else if ((tag & 7) === 2) { const n = Number(read()); yield [id, data.subarray(at, at + n)]; at += n; }
        else throw new Error(`wire type ${tag & 7}`);
    }
}
const get = (data, id) => [...fields(data)].filter(([k]) => k === id).map(([, v]) => v);

const APPEND = 1, FINALIZE = 2, QUERY = 3;
let replies = [];
const port = { postMessage(data) { for (const rpc of get(Buffer.from(data), 1)) replies.push(rpc); } };
let seq = 0;
function ask(request, args) { // -> the messages of the reply
    replies = [];
    port.onmessage({ data: new Uint8Array(bytes(1, Buffer.concat([number(1, seq++), number(2, request), args]))) });
    for (const r of replies) for (const text of get(r, 5)) throw new Error(`fatal: ${text}`);
    return replies;
}

function rowsOf(messages) { // QueryResult: 1 column_names, 2 error, 3 batches of cells
    const rows = [];
    let columns = 0, row = [];
    for (const result of messages.flatMap((m) => get(m, 203))) {
        for (const error of get(result, 2)) if (error.length) throw new Error(`query: ${error}`);
        columns = columns || get(result, 1).length;
        for (const batch of get(result, 3)) { // 1 types, 2 varints, 3 doubles, 4 blobs, 5 texts joined by zeros
            const ints = get(batch, 2).flatMap((p) => [...packed(p)]), reals = get(batch, 3).flatMap((p) => [...doubles(p)]);
            const texts = Buffer.concat(get(batch, 5)).toString().split("\0");
            for (const type of get(batch, 1).flatMap((p) => [...p])) {
                row.push(type === 2 ? Number(ints.shift()) : type === 3 ? reals.shift() : type === 4 ? texts.shift() : null);
                if (row.length === columns) { rows.push(row); row = []; }
            }
        }
    }
    return rows;
}
function* packed(data) { for (let at = 0; at < data.length;) { let n = 0n, shift = 0n, b; do { b = BigInt(data[at++]); n |= (b & 127n) << shift; shift += 7n; } while (b & 128n); yield BigInt.asIntN(64, n); } }
function* doubles(data) { for (let at = 0; at + 8 <= data.length; at += 8) yield data.readDoubleLE(at); }

async function main() {
    self.onmessage({ data: port });
    for (let i = 0; i < 600 && !port.onmessage; i++) await new Promise((f) => setTimeout(f, 50));
    await new Promise((f) => setTimeout(f, 1500)); // the module is compiled; there is no event for that
    const all = fs.readFileSync(trace);
    for (let at = 0; at < all.length; at += 1 << 24) {
        for (const r of ask(APPEND, bytes(101, all.subarray(at, at + (1 << 24))))) for (const a of get(r, 201)) for (const e of get(a, 2)) if (e.length) throw new Error(`append: ${e}`);
    }
    for (const r of ask(FINALIZE, Buffer.alloc(0))) for (const a of get(r, 212)) for (const e of get(a, 1)) if (e.length) throw new Error(`finalize: ${e}`);
    for (const sql of queries) console.log(JSON.stringify(rowsOf(ask(QUERY, bytes(103, bytes(1, Buffer.from(sql)))))));
}
main().then(() => process.exit(0), (e) => { console.error(e.stack || e); process.exit(1); });
