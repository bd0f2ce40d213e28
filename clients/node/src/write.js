import { addAbortSignal, Writable } from 'node:stream';
import { Session } from './session.js';
import { Place, Statement, VALUE_BYTES } from './value.js';

const PIECE_BYTES = VALUE_BYTES; // of one statement: a multiple of the extension's units

// New contents of a value, which are stored when the stream has finished, in the row that is
// there, or in a new one.  destroy() stores nothing.  Up to 1 MB they go as a parameter.
export class WriteStream extends Writable {
	#session;
	#place;
	#handle;
	#piece; // bytes that wait
	#waiting = 0;
	#inProgress = Promise.resolve();

	constructor(db, value, { highWaterMark = 4 * PIECE_BYTES, signal } = {}) {
		const place = new Place(value);
		super({ highWaterMark });
		this.db = db;
		this.#place = place;
		this.bytesWritten = 0;
		if (signal) // not in super(): a signal that was sent already calls _destroy()
			addAbortSignal(signal, this);
	}

	_write(chunk, encoding, callback) {
		this.#follow(this.#gather(chunk), callback);
	}

	_writev(chunks, callback) {
		this.#follow((async () => {
			for (const { chunk } of chunks)
				await this.#gather(chunk);
		})(), callback);
	}

	_final(callback) {
		const store = this.#store().catch((error) => {
			throw error.code === '21000' ? this.#place.severalRows(error) : error;
		});
		this.#follow(store, callback);
	}

	#follow(promise, callback) {
		this.#inProgress = promise.catch(() => {});
		promise.then(() => callback(), callback);
	}

	async #gather(chunk) {
		this.bytesWritten += chunk.length;
		for (let at = 0; at < chunk.length;) {
			if (this.#waiting === PIECE_BYTES)
				await this.#sendWaiting();
			// the first piece waits: if it is all, there is no handle
			if (this.#waiting === 0 && this.#handle !== undefined && chunk.length - at >= PIECE_BYTES) {
				await this.#send(chunk.subarray(at, at + PIECE_BYTES));
				at += PIECE_BYTES;
				continue;
			}
			this.#piece ??= Buffer.allocUnsafeSlow(PIECE_BYTES);
			const count = chunk.copy(this.#piece, this.#waiting, at);
			this.#waiting += count;
			at += count;
		}
	}

	async #sendWaiting() {
		const piece = this.#piece.subarray(0, this.#waiting);
		await this.#send(piece);
		this.#waiting = 0;
	}

	async #send(piece) {
		if (this.#handle === undefined)
			await this.#create();
		await this.#session.query(`SELECT ${this.#place.function('securefile_write')}($1, $2)`, [this.#handle, piece]);
	}

	async #create() {
		this.#session = await Session.begin(this.db, false);
		const { rows } = await this.#session.query(
			`SELECT ${this.#place.function('securefile_create')}($1::text::regclass, $2) AS handle`,
			[this.#place.table, this.#place.value.column]);
		this.#handle = rows[0].handle;
	}

	async #store() {
		const statement = new Statement();
		if (this.#handle === undefined) {
			Session.mayWrite(this.db);
			const value = statement.parameter(Buffer.from(this.#piece?.subarray(0, this.#waiting) ?? []));
			await this.db.query(this.#place.store(statement, value), statement.values);
			return;
		}
		if (this.#waiting > 0)
			await this.#sendWaiting();
		const value = `${this.#place.function('securefile_finish')}(${statement.parameter(this.#handle)})`;
		await this.#session.query(this.#place.store(statement, value), statement.values);
		await this.#session.commit();
		this.#session = undefined;
	}

	_destroy(error, callback) {
		this.#finish().then(() => callback(error), callback);
	}

	async #finish() {
		await this.#inProgress;
		const session = this.#session;
		this.#session = undefined;
		this.#piece = undefined;
		await session?.giveUp(this.#place.function('securefile_close'), this.#handle);
	}
}
