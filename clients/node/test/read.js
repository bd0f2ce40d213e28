import assert from 'node:assert/strict';
import { once } from 'node:events';
import { setTimeout } from 'node:timers/promises';
import { createReadStream, createWriteStream, get, NoSuchValue, put } from 'pgsecurefile';
import { CopyOut } from '../node_modules/pgsecurefile/src/copy.js';
import { all, doc, MB, random, same, withClient, withPool } from './common.js';

const data = random(9 * MB + 7);

export async function ranges(client) {
	await put(client, doc('a'), data);
	for (const [start, end] of [[0, undefined], [0, 0], [1, 262144], [262143, 262144], [MB, 2 * MB - 1], [5, 6 * MB],
		[data.length - 3, data.length - 1], [data.length - 3, 2 ** 45], [data.length, undefined], [2 ** 41, undefined], [7, 6]]) {
		const part = data.subarray(start, end === undefined ? data.length : end + 1);
		same(await all(createReadStream(client, doc('a'), { start, end })), part);
		same(await get(client, doc('a'), undefined, { start, end }), part);
	}
	const evil = { valueOf: () => 0, toString: () => '0, 0); DROP TABLE node_docs; --' };
	for (const [start, end] of [[-1, 5], [NaN, 5], [5, 2], [1.5, 3], ['1', '3'], [[3], 5], [evil, 5], [0, null]]) {
		assert.throws(() => createReadStream(client, doc('a'), { start, end }), RangeError);
		await assert.rejects(get(client, doc('a'), undefined, { start, end }), RangeError);
	}
}

// No statement asks for more while the consumer does not read.
export async function readsAheadInBounds(client) {
	await put(client, doc('a'), random(30 * MB));
	const stream = createReadStream(client, doc('a'));
	stream.read(0);
	await new Promise((resolve) => stream.once('readable', resolve));
	await setTimeout(300);
	assert.ok(stream.readableLength <= 8 * MB, `${stream.readableLength} bytes are read ahead`);
	same(await all(stream), random(30 * MB));
}

export async function oneVersion(client) {
	await put(client, doc('a'), data);
	await withPool(1, async (pool) => {
		const stream = createReadStream(pool, doc('a'));
		await new Promise((resolve) => stream.once('ready', resolve));
		assert.equal(stream.length, data.length);
		await put(client, doc('a'), Buffer.from('new'));
		same(await all(stream), data);
		same(await get(pool, doc('a')), Buffer.from('new'));
	});
}

export async function noValue(client) {
	await client.query("INSERT INTO node_docs VALUES ('null', NULL), ('empty', '')");
	for (const name of ['none', 'null']) {
		await assert.rejects(get(client, doc(name)), (error) => error instanceof NoSuchValue && error.code === 'ENOENT');
		await assert.rejects(all(createReadStream(client, doc(name))), NoSuchValue);
	}
	same(await get(client, doc('empty')), Buffer.alloc(0));
	same(await all(createReadStream(client, doc('empty'))), Buffer.alloc(0));
	assert.equal(client.getTransactionStatus(), 'I');
	await client.query("UPDATE node_docs SET owner = 'all', document = 'x'");
	await assert.rejects(all(createReadStream(client, doc('', { key: { owner: 'all' } }))), /several rows/);
	assert.throws(() => createReadStream(client, { table: 'node_docs', column: 'document' }), TypeError);
}

// A value of 10 TB, given up: the client is free at once.
export async function givenUp(client) {
	await client.query("INSERT INTO node_docs VALUES ('a', securefile_truncate('x'::securefile, 10000000000000))");
	await withPool(1, async (pool) => {
		for await (const piece of createReadStream(pool, doc('a'))) {
			assert.equal(piece[0], 'x'.charCodeAt(0));
			break;
		}
		same(await get(pool, doc('kept')), Buffer.from('old'));
		const signal = AbortSignal.timeout(50);
		await assert.rejects(get(pool, doc('a'), undefined, { signal }), { name: 'AbortError' });
		same(await get(pool, doc('kept')), Buffer.from('old'));
	});
}

// Nothing is begun, or what is begun ends, also with a signal that was sent before, and a target
// that is none.
export async function signalWasSent(client) {
	await put(client, doc('a'), data);
	await withPool(1, async (pool) => {
		const signal = AbortSignal.abort();
		await assert.rejects(get(pool, doc('a'), undefined, { signal }), { name: 'AbortError' });
		await assert.rejects(all(createReadStream(pool, doc('a'), { signal })), { name: 'AbortError' });
		await assert.rejects(put(pool, doc('kept'), data, { signal }), { name: 'AbortError' });
		await assert.rejects(get(pool, doc('a'), 5), { code: 'ERR_INVALID_ARG_TYPE' });
		await assert.rejects(put(pool, doc('kept'), null), { code: 'ERR_INVALID_ARG_TYPE' });
		const writer = createWriteStream(pool, doc('kept'), { signal });
		await assert.rejects(once(writer, 'close'), { name: 'AbortError' });
		same(await get(pool, doc('kept')), Buffer.from('old'));
		assert.equal(pool.idleCount, 1);
	});
}

// In the caller's transaction: several streams at once, one after the other's statement.
export async function callersTransaction(client) {
	await put(client, doc('a'), data);
	await client.query('BEGIN');
	const first = createReadStream(client, doc('a'));
	const iterator = first[Symbol.asyncIterator]();
	same((await iterator.next()).value, data.subarray(0, 262144));
	first.destroy();
	await new Promise((resolve) => first.once('close', resolve));
	same(await all(createReadStream(client, doc('a'), { start: 100 })), data.subarray(100));
	assert.equal(client.getTransactionStatus(), 'T');
	await client.query('COMMIT');
}

export async function connectionIsLost(client) {
	await put(client, doc('a'), random(30 * MB));
	await withClient(async (broken) => {
		const stream = createReadStream(broken, doc('a'));
		await assert.rejects(async () => {
			for await (const piece of stream)
				if (piece && broken.processID) {
					await client.query('SELECT pg_terminate_backend($1, 10000)', [broken.processID]);
					broken.processID = 0;
				}
		});
	});
	await withPool(1, async (pool) => {
		const { rows } = await pool.query('SELECT pg_backend_pid() AS pid');
		const stream = createReadStream(pool, doc('a'));
		await assert.rejects(async () => {
			for await (const piece of stream)
				await client.query('SELECT pg_terminate_backend($1, 10000)', [rows[0].pid]);
		});
		same(await get(pool, doc('kept')), Buffer.from('old'));
	});
}

// The protocol does not say that a message of COPY is a row.
export async function messagesOfAllSizes() {
	const field = (bytes) => Buffer.concat([Buffer.from([0, 1, 0, 0, 0, bytes.length]), bytes]);
	const rows = [random(0), random(1), random(200)];
	const sent = Buffer.concat([Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'), Buffer.from([0, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3]),
		...rows.map(field), Buffer.from([255, 255])]);
	for (let size = 1; size <= sent.length; size++) {
		const got = [];
		const copy = new CopyOut('', (row) => got.push(Buffer.from(row)));
		for (let at = 0; at < sent.length; at += size)
			copy.handleCopyData({ chunk: Buffer.from(sent.subarray(at, at + size)) });
		assert.deepEqual(got, rows);
	}
}
