// That the declarations fit node-postgres's and Node's own; compiled, and never run.

import { createReadStream as fromFile } from 'node:fs';
import { createServer } from 'node:http';
import { pipeline } from 'node:stream/promises';
import pg from 'pg';
import { createReadStream, createWriteStream, get, NoSuchValue, put, serve, type Value } from 'pgsecurefile';

const pool = new pg.Pool();
const value: Value = { table: 'docs', column: 'document', key: { name: 'a', part: 1 }, set: { owner: 'me' } };

export async function all(client: pg.Client, ofPool: pg.PoolClient): Promise<void> {
	const length: number = await put(pool, value, fromFile('a'), { signal: AbortSignal.timeout(1) });
	await put(client, value, Buffer.from('a'));
	await put(ofPool, value, [new Uint8Array(length)]);
	const bytes: Buffer = await get(client, value, undefined, { start: 1, end: 2 });
	const written: number = await get(pool, value, process.stdout);
	const stream = createReadStream(pool, value, { start: 5, highWaterMark: 1 });
	await pipeline(stream, createWriteStream(ofPool, value));
	console.log(bytes, written, stream.length, stream.version, stream.bytesRead, new NoSuchValue('a').code);
	createServer((request, response) => {
		serve(pool, value, request, response, { headers: { 'Content-Type': 'video/mp4' } }).catch(console.error);
	});
	// @ts-expect-error a key is wanted
	await get(pool, { table: 'docs', column: 'document' });
	// @ts-expect-error no such option
	createReadStream(pool, value, { from: 1 });
}
