import { addAbortSignal, Readable } from 'node:stream';
import { CopyOut } from './copy.js';
import { Session } from './session.js';
import { checkRange, NoSuchValue, Place, Statement } from './value.js';

const PIECE_BYTES = 256 * 1024; // of one row: two of the extension's units
const WINDOW_BYTES = 4 * 1024 * 1024; // what one statement asks for

// Bytes of one version of a value, of "start" up to and with "end", in pieces of 256 KB.
export class ReadStream extends Readable {
	#session;
	#place;
	#handle;
	#at;
	#end;
	#window; // a promise, while a statement is in progress
	#wanted = false;

	constructor(db, value, { start = 0, end = Infinity, highWaterMark = WINDOW_BYTES, signal } = {}) {
		checkRange(start, end);
		const place = new Place(value);
		super({ highWaterMark });
		this.db = db;
		this.#place = place;
		this.#at = start;
		this.#end = end + 1;
		this.bytesRead = 0;
		// of the whole value, and which version of it: known when "ready" comes
		this.length = undefined;
		this.version = undefined;
		if (signal) // not in super(): a signal that was sent already calls _destroy()
			addAbortSignal(signal, this);
	}

	_construct(callback) {
		if (this.destroyed)
			return callback();
		this.#open().then(() => {
			callback();
			this.emit('ready');
		}, callback);
	}

	async #open() {
		const place = this.#place;
		const statement = new Statement();
		this.#session = await Session.begin(this.db, true);
		const { rows } = await this.#session.query(
			`SELECT ${place.function('securefile_open')}(${place.column}, 'r') AS handle,
				length(${place.column})::text AS length, xmin::text AS version ${place.from(statement)} LIMIT 2`,
			statement.values);
		if (rows.length > 1)
			throw place.severalRows();
		if (rows.length === 0 || rows[0].handle === null)
			throw new NoSuchValue(place.value);
		this.#handle = rows[0].handle;
		this.length = Number(rows[0].length);
		this.version = rows[0].version;
		this.#end = Math.min(this.#end, this.length);
	}

	// Another range, before anything is read.
	range(start, end) {
		this.#at = start;
		this.#end = Math.min(end + 1, this.length);
	}

	_read() {
		if (this.#window) {
			this.#wanted = true;
			return;
		}
		if (this.#at >= this.#end) {
			this.push(null);
			return;
		}
		this.#wanted = false;
		this.#window = this.#readWindow();
		this.#window.then(() => {
			this.#window = undefined;
			if (this.#wanted || this.#at >= this.#end)
				this._read();
		}, (error) => {
			this.#window = undefined;
			this.destroy(error);
		});
	}

	async #readWindow() {
		const from = this.#at;
		const count = Math.min(this.#end - from, WINDOW_BYTES);
		const name = (text) => this.#place.function(text);
		const copy = new CopyOut(
			`SELECT ${name('securefile_seek')}(${this.#handle}, ${from}, 0);
			COPY (SELECT ${name('securefile_read')}(${this.#handle}, LEAST(${PIECE_BYTES}, ${count} - o)::int4)
				FROM generate_series(0::int8, ${count - 1}, ${PIECE_BYTES}) AS o) TO STDOUT (FORMAT binary)`,
			(piece) => this.#take(piece));
		this.#session.client.query(copy);
		await copy.done.catch((error) => {
			throw this.#session.reason(error);
		});
		if (this.#at !== from + count)
			throw new Error(`the server sent ${this.#at - from} bytes of ${count}`);
	}

	#take(piece) {
		this.#at += piece.length;
		this.bytesRead += piece.length;
		if (!this.destroyed)
			this.push(Buffer.from(piece)); // the piece is node-postgres's buffer
	}

	_destroy(error, callback) {
		this.#finish().then(() => callback(error), callback);
	}

	async #finish() {
		await this.#window?.catch(() => {});
		const session = this.#session;
		this.#session = undefined;
		await session?.giveUp(this.#place.function('securefile_close'), this.#handle);
	}
}
