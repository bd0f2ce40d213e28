import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Readable } from 'node:stream';
import { createWriteStream, get, put } from 'pgsecurefile';
import { doc, holds, MB, random, same, storesNothing, withClient, withPool } from './common.js';

export async function lengths(client) {
	for (const length of [0, 1, 262144, MB - 1, MB, MB + 1, 2 * MB, 5 * MB + 7]) {
		const data = random(length);
		assert.equal(await put(client, doc('a'), data), length); // a new row first, then the one that is there
		await holds(client, 'a', data);
	}
	await put(client, doc('text'), Buffer.from('\\x4142'));
	await holds(client, 'text', Buffer.from('\\x4142'));
	assert.equal(client.getTransactionStatus(), 'I');
}

export async function chunksOfAllSizes(client) {
	const data = random(7 * MB + 3);
	const stream = createWriteStream(client, doc('a'));
	let at = 0;
	for (const length of [1, 0, 100000, 3 * MB, 3, MB, 2 * MB]) {
		const chunk = Buffer.from(data.subarray(at, at + length));
		await new Promise((resolve, reject) => stream.write(chunk, (error) => (error ? reject(error) : resolve())));
		chunk.fill(0); // it is the caller's again
		at += length;
	}
	stream.end(data.subarray(at));
	await once(stream, 'close');
	assert.equal(stream.bytesWritten, data.length);
	await holds(client, 'a', data);
	const pieces = Array.from({ length: Math.ceil(data.length / 10000) }, (_, i) => data.subarray(i * 10000, (i + 1) * 10000));
	await put(client, doc('b'), pieces);
	await holds(client, 'b', data);
}

async function* cutOff(length) {
	yield random(length);
	throw new Error('the source is cut off');
}

// Everything that a database can be.
async function everyDatabase(client, use) {
	await use(client);
	await client.query('BEGIN');
	await use(client);
	assert.equal(client.getTransactionStatus(), 'T');
	await client.query('COMMIT');
	await withPool(1, async (pool) => {
		await use(pool);
		const ofPool = await pool.connect();
		await use(ofPool);
		ofPool.release();
	});
}

export async function sourceFails(client) {
	await everyDatabase(client, async (db) => {
		for (const length of [10, 3 * MB])
			await storesNothing(db, put(db, doc('kept'), cutOff(length)), /cut off/);
	});
}

export async function destroyed(client) {
	await everyDatabase(client, async (db) => {
		const stream = createWriteStream(db, doc('kept'));
		await new Promise((resolve) => stream.write(random(3 * MB), resolve));
		stream.destroy();
		await once(stream, 'close');
		await holds(db, 'kept', Buffer.from('old'));
	});
}

export async function aborted(client) {
	async function* endless() {
		for (;;)
			yield random(MB);
	}
	await withPool(1, (pool) => storesNothing(pool, put(pool, doc('kept'), endless(), { signal: AbortSignal.timeout(100) }),
		{ name: 'AbortError' }));
	await holds(client, 'kept', Buffer.from('old'));
}

// What is written in another stream's transaction would end with it.
export async function anotherStreamsTransaction(client) {
	const stream = createWriteStream(client, doc('a'));
	await new Promise((resolve) => stream.write(random(3 * MB), resolve));
	for (const length of [10, 3 * MB])
		await storesNothing(client, put(client, doc('kept'), random(length)), /another stream has begun a transaction/);
	stream.destroy();
	await once(stream, 'close');
	await put(client, doc('kept'), random(10));
	await holds(client, 'kept', random(10));
}

export async function callersTransaction(client) {
	await client.query('BEGIN');
	await put(client, doc('kept'), random(3 * MB));
	await put(client, doc('b', { set: { owner: 'me' } }), random(2 * MB));
	await holds(client, 'kept', random(3 * MB));
	await client.query('ROLLBACK');
	await holds(client, 'kept', Buffer.from('old'));
	await assert.rejects(get(client, doc('b')));
}

export async function connectionIsLost(client) {
	await withClient(async (broken) => {
		async function* source() {
			yield random(3 * MB);
			await client.query('SELECT pg_terminate_backend($1, 10000)', [broken.processID]);
			yield random(3 * MB);
		}
		await assert.rejects(put(broken, doc('kept'), source()));
	});
	await withPool(1, async (pool) => {
		const { rows } = await pool.query('SELECT pg_backend_pid() AS pid');
		async function* source() {
			yield random(3 * MB);
			await client.query('SELECT pg_terminate_backend($1, 10000)', [rows[0].pid]);
			yield random(3 * MB);
		}
		await storesNothing(pool, put(pool, doc('kept'), source()));
	});
	// between two statements: the error is the server's
	await withPool(1, async (pool) => {
		const lost = new Promise((resolve) => pool.once('connect', (ofPool) => ofPool.once('error', resolve)));
		const { rows } = await pool.query('SELECT pg_backend_pid() AS pid');
		const stream = createWriteStream(pool, doc('kept'));
		await new Promise((resolve) => stream.write(random(3 * MB), resolve));
		await client.query('SELECT pg_terminate_backend($1, 10000)', [rows[0].pid]);
		await lost;
		stream.end(random(3 * MB));
		await assert.rejects(once(stream, 'close'), { code: '57P01' });
	});
}

export async function serverRefuses() {
	await withPool(1, async (pool) => {
		for (const length of [10, 3 * MB])
			await storesNothing(pool, put(pool, doc('a', { table: 'nowhere' }), random(length)), { code: '42P01' });
	});
}

export async function severalRows(client) {
	await client.query("INSERT INTO node_docs VALUES ('a', 'old', 'both')");
	await client.query("UPDATE node_docs SET owner = 'both'");
	for (const length of [10, 3 * MB])
		await storesNothing(client, put(client, doc('', { key: { owner: 'both' } }), random(length)), /several rows of node_docs/);
	await holds(client, 'a', Buffer.from('old'));
}

export async function names(client) {
	await client.query(`DROP SCHEMA IF EXISTS "node odd" CASCADE; CREATE SCHEMA "node odd";
		CREATE TABLE "node odd"."ta""ble" ("na%me" text, part int, "doc ument" securefile, owner text, PRIMARY KEY ("na%me", part))`);
	const value = {
		table: 'node odd.ta"ble', column: 'doc ument', key: { 'na%me': "it's", part: 2 }, set: { owner: 'me' }, schema: 'public',
	};
	for (const data of [random(2 * MB), random(100), random(2 * MB)]) {
		await put(client, value, Readable.from([data]));
		same(await get(client, value), data);
	}
	const { rows } = await client.query('SELECT count(*)::int AS count, min(owner) AS owner FROM "node odd"."ta""ble"');
	assert.deepEqual(rows, [{ count: 1, owner: 'me' }]);
	await client.query('DROP SCHEMA "node odd" CASCADE');
}

// How many statements there are: one for a short value, few for a long one.
export async function statements(client) {
	let count = 0;
	const query = client.query;
	client.query = function (...args) {
		count++;
		return query.apply(this, args);
	};
	const counted = async (promise) => {
		count = 0;
		await promise();
		return count;
	};
	const data = random(20 * MB);
	assert.equal(await counted(() => put(client, doc('a'), data.subarray(0, 1000))), 1);
	assert.equal(await counted(() => get(client, doc('a'))), 1);
	const pieces = Array.from({ length: 2000 }, (_, i) => data.subarray(i * 10486, (i + 1) * 10486));
	assert.ok(await counted(() => put(client, doc('a'), pieces)) <= 20 + 4);
	assert.ok(await counted(() => get(client, doc('a'))) <= 5 + 4);
}
