// When a stream has given its client back: pipeline() does not wait for that.
export function closed(stream) {
	return stream.closed ? undefined : new Promise((resolve) => stream.once('close', resolve));
}

// A client and a transaction: the caller's, or one that a stream has begun.

export class Session {
	static async begin(db, readOnly) {
		const session = new Session();
		session.pooled = typeof db.totalCount === 'number'; // a pool
		session.client = session.pooled ? await db.connect() : db;
		if (typeof session.client.getTransactionStatus !== 'function')
			throw new TypeError('a client or a pool of pg 8.21 or later is wanted');
		session.onError = () => {}; // the statement in progress reports it
		if (session.pooled)
			session.client.on('error', session.onError);
		session.own = !session.inTransaction();
		try {
			if (session.own)
				await session.client.query(readOnly ? 'BEGIN READ ONLY' : 'BEGIN');
		} catch (error) {
			session.release(error);
			throw error;
		}
		return session;
	}

	// Whether the client is in a transaction, also a failed one.
	inTransaction() {
		return ['T', 'E'].includes(this.client.getTransactionStatus());
	}

	query(text, values) {
		return this.client.query(text, values);
	}

	release(error) {
		if (this.pooled) {
			this.client.removeListener('error', this.onError);
			this.client.release(error);
		}
	}

	async commit() {
		if (this.own)
			await this.query('COMMIT');
		this.release();
	}

	// What is the stream's own is rolled back; in the caller's transaction the handle is closed.
	async giveUp(close, handle) {
		let failed;
		try {
			if (this.own)
				await this.query('ROLLBACK');
			else if (handle !== undefined && this.client.getTransactionStatus() === 'T')
				await this.query(`SELECT ${close}($1)`, [handle]);
		} catch (error) {
			failed = error; // a lost connection: the stream's own error says why
		}
		this.release(failed);
	}
}
