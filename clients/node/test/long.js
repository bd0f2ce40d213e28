import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { Writable } from 'node:stream';
import { get, put } from 'pgsecurefile';
import { doc, MB, random } from './common.js';

// The most memory, in kB, that the program has had.
function peak() {
	return Number(/VmHWM:\s*(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]);
}

export async function twoGigabytesInConstantMemory(client) {
	if (process.env.SECUREFILE_PAYLOADS !== 'long')
		return 'a part of make check-long';
	const piece = random(MB);
	const written = createHash('sha256');
	const read = createHash('sha256');
	async function* source() {
		for (let i = 0; i < 2048; i++) {
			piece.writeInt32LE(i);
			written.update(piece);
			yield Buffer.from(piece);
		}
	}
	await put(client, doc('a'), random(30 * MB));
	await get(client, doc('a'), new Writable({ write: (chunk, encoding, done) => done() }));
	const before = peak();
	assert.equal(await put(client, doc('a'), source()), 2048 * MB);
	const length = await get(client, doc('a'), new Writable({
		write(chunk, encoding, done) {
			read.update(chunk);
			done();
		},
	}));
	assert.equal(length, 2048 * MB);
	assert.equal(read.digest('hex'), written.digest('hex'));
	const more = peak() - before;
	assert.ok(!(more > 200 * 1024), `2 GB took ${more} kB more memory`);
	return undefined;
}
