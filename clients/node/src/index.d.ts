import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable, Writable } from 'node:stream';

/** A Client, a Pool, or a client of a pool of node-postgres. */
export interface Database {
	query(...args: any[]): any;
	connect(...args: any[]): any;
}

/** One row's value of a column of type securefile. */
export interface Value {
	/** "docs", or with its schema "archive.docs". */
	table: string;
	column: string;
	/** Columns and values that name one row. */
	key: Record<string, unknown>;
	/** Other columns that are set with the value. */
	set?: Record<string, unknown>;
	/** Of the extension, if it is not in search_path. */
	schema?: string;
}

export interface Range {
	/** The first byte's position, from 0. */
	start?: number;
	/** The last byte's position, as for fs.createReadStream(). */
	end?: number;
	signal?: AbortSignal;
}

/** There is no row, or NULL in it. */
export class NoSuchValue extends Error {
	readonly code: 'ENOENT';
}

/** Bytes of one version of a value: the one that it was opened on. */
export class ReadStream extends Readable {
	constructor(db: Database, value: Value, options?: Range & { highWaterMark?: number });
	/** Of the whole value, after the event "ready". */
	readonly length: number | undefined;
	/** Changes whenever the row does; after the event "ready". */
	readonly version: string | undefined;
	readonly bytesRead: number;
}

/** New contents of a value; stored when the stream has finished, and not if it is destroyed. */
export class WriteStream extends Writable {
	constructor(db: Database, value: Value, options?: { highWaterMark?: number; signal?: AbortSignal });
	readonly bytesWritten: number;
}

export function createReadStream(db: Database, value: Value, options?: Range & { highWaterMark?: number }): ReadStream;
export function createWriteStream(
	db: Database, value: Value, options?: { highWaterMark?: number; signal?: AbortSignal }): WriteStream;

/** Stores bytes, or all that the source gives; the length. */
export function put(
	db: Database, value: Value, source: Uint8Array | NodeJS.ReadableStream | AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
	options?: { signal?: AbortSignal }): Promise<number>;

/** A value, or a range of it. */
export function get(db: Database, value: Value, to?: undefined, options?: Range): Promise<Buffer>;
/** A value, or a range of it, into a stream, which is ended; the length. */
export function get(db: Database, value: Value, to: NodeJS.WritableStream, options?: Range): Promise<number>;

/** Answers a GET or HEAD request: Range, If-Range, ETag, If-None-Match; 404 if there is no value. */
export function serve(
	db: Database, value: Value, request: IncomingMessage, response: ServerResponse,
	options?: { headers?: Record<string, string | number> }): Promise<void>;
