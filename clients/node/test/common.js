import { createHash } from 'node:crypto';
import assert from 'node:assert/strict';
import pg from 'pg';
import { get, put } from 'pgsecurefile';

export const MB = 1024 * 1024;

// Bytes that follow from the length: a linear congruential generator, its high bytes.
export function random(length) {
	const data = Buffer.alloc(length);
	let state = length;
	for (let i = 0; i < length; i++) {
		state = (Math.imul(state, 1664525) + 1013904223) | 0;
		data[i] = state >>> 24;
	}
	return data;
}

export const doc = (name, more) => ({ table: 'node_docs', column: 'document', key: { name }, ...more });

export function same(read, written) {
	assert.ok(Buffer.isBuffer(read), 'a Buffer');
	assert.ok(read.equals(written), `read ${read.length} bytes, should be the ${written.length} that were written`);
}

export async function all(stream) {
	const pieces = [];
	for await (const piece of stream)
		pieces.push(piece);
	return Buffer.concat(pieces);
}

// What the server has, as its MD5.
export async function holds(db, name, data) {
	const { rows } = await db.query('SELECT md5(document) AS md5 FROM node_docs WHERE name = $1', [name]);
	assert.equal(rows[0]?.md5, createHash('md5').update(data).digest('hex'));
	same(await get(db, doc(name)), data);
}

export async function storesNothing(db, promise, expected) {
	await assert.rejects(promise, expected);
	await holds(db, 'kept', Buffer.from('old'));
}

export async function withClient(use) {
	const client = new pg.Client();
	client.on('error', () => {});
	await client.connect();
	try {
		return await use(client);
	} finally {
		await client.end().catch(() => {});
	}
}

export async function withPool(max, use) {
	const pool = new pg.Pool({ max });
	pool.on('error', () => {});
	try {
		return await use(pool);
	} finally {
		await pool.end();
	}
}

export async function prepare(client) {
	await client.query('DROP TABLE IF EXISTS node_docs');
	await client.query('CREATE TABLE node_docs (name text PRIMARY KEY, document securefile, owner text)');
	await put(client, doc('kept'), Buffer.from('old'));
}
