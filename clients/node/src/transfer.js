import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ReadStream } from './read.js';
import { closed } from './session.js';
import { checkRange, NoSuchValue, Place, Statement, VALUE_BYTES } from './value.js';
import { WriteStream } from './write.js';

// Stores bytes, or all that a stream or an async iterable gives; returns the length.  If
// anything fails, also the source, nothing is stored.
export async function put(db, value, source, { signal } = {}) {
	const to = new WriteStream(db, value);
	const from = source instanceof Uint8Array ? Readable.from([source], { objectMode: false }) : source;
	await pipeline(from, to, { signal }).finally(() => closed(to));
	return to.bytesWritten;
}

// A value, or a range of it, as a Buffer; or into a writable stream, and its length.
export async function get(db, value, to, { start = 0, end = Infinity, signal } = {}) {
	if (!to)
		return getBuffer(db, value, start, end, signal);
	const from = new ReadStream(db, value, { start, end });
	await pipeline(from, to, { signal }).finally(() => closed(from));
	return from.bytesRead;
}

async function getBuffer(db, value, start, end, signal) {
	checkRange(start, end);
	signal?.throwIfAborted();
	const short = await getShort(db, value, start, end);
	if (short)
		return short;
	const from = new ReadStream(db, value, { start, end, signal });
	const pieces = await from.toArray().finally(() => closed(from));
	return Buffer.concat(pieces);
}

// Up to 1 MB, by one statement; of more, null.
async function getShort(db, value, start, end) {
	const place = new Place(value);
	const statement = new Statement();
	const count = Number.isFinite(end) ? end + 1 - start : Number.MAX_SAFE_INTEGER;
	const from = `${statement.parameter(start)}::int8`;
	const wanted = `LEAST(${statement.parameter(count)}::int8, length(${place.column}) - ${from})`;
	const { rows } = await db.query(
		`SELECT length(${place.column}) IS NULL AS missing,
			CASE WHEN ${wanted} <= ${VALUE_BYTES}
			THEN substring(${place.column} FROM ${from} + 1 FOR GREATEST(${wanted}, 0)) END AS bytes
		${place.from(statement)}`, statement.values);
	if (rows.length === 0 || rows[0].missing)
		throw new NoSuchValue(value);
	return rows[0].bytes;
}
