import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';

export const createTable = 'CREATE TABLE docs (id bigint PRIMARY KEY, name text, document securefile)';
export const dropTable = 'DROP TABLE docs';

const longRun = process.env.SECUREFILE_PAYLOADS === 'long';
const MB = 1024 * 1024;

// Bytes that follow from the length: a linear congruential generator, its high bytes.
function random(length) {
	const data = Buffer.alloc(length);
	let state = length;
	for (let i = 0; i < length; i++) {
		state = (Math.imul(state, 1664525) + 1013904223) | 0;
		data[i] = state >>> 24;
	}
	return data;
}

export const smallPayloads = [
	{ name: 'NULL', data: null },
	{ name: '0 bytes', data: Buffer.alloc(0) },
	{ name: '10 bytes', data: Buffer.from([0, 255, 39, 34, 92, 10, 0, 128, 120, 0]) },
	{ name: 'the text \\x4142', data: Buffer.from('\\x4142') },
	{ name: 'the text a\\134b', data: Buffer.from('a\\134b') },
	{ name: 'the text a\\\\b', data: Buffer.from('a\\\\b') },
	{ name: '10 KB', data: random(10 * 1024) },
];

export const payloads = [...smallPayloads, { name: '5 MB', data: random(5 * MB) }];
if (longRun)
	payloads.push({ name: '200 MB', data: random(200 * MB) });

// What is moved in pieces.
export const streamed = longRun ? payloads.at(-1) : { name: '5 MB', data: random(5 * MB + 1) };

// A stream of a payload in pieces of 1 MB, like that of a file.
export function inPieces(data) {
	return Readable.from((function* () {
		for (let at = 0; at < data.length; at += MB)
			yield data.subarray(at, at + MB);
	})());
}

function show(data) {
	if (data === null || data === undefined)
		return String(data);
	return `${data.constructor.name} of ${data.length}: ${JSON.stringify(String(data.subarray?.(0, 20) ?? data))}`;
}

// Compares what was read with what was written, NULL and the empty value included.
export function same(read, written) {
	const equal = written === null ? read === null : Buffer.isBuffer(read) && read.equals(written);
	if (!equal)
		throw new Error(`read ${show(read)}, wrote ${show(written)}`);
}

// Compares what the server says of a stored value with what was written.
export function sameOnServer(serverMD5, written) {
	const expected = written === null ? null : createHash('md5').update(written).digest('hex');
	if (serverMD5 !== expected)
		throw new Error('the server has other bytes than were written');
}
