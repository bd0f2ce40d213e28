// When a stream has given its client back: pipeline() does not wait for that, and leaves streams
// as they are when it refuses what it is called with.
export function closed(stream) {
	stream.destroy();
	return stream.closed ? undefined : new Promise((resolve) => stream.once('close', resolve));
}

// A client and a transaction: the caller's, or one that a stream has begun.

const taken = new WeakSet(); // clients in a transaction that a stream has begun

export class Session {
	// What is written in the transaction of another stream would be rolled back with it.
	static mayWrite(client) {
		if (taken.has(client))
			throw new Error('another stream has begun a transaction on this client: wait until it is closed, or begin one before');
	}

	static async begin(db, readOnly) {
		const session = new Session();
		session.pooled = typeof db.totalCount === 'number'; // a pool
		session.client = session.pooled ? await db.connect() : db;
		session.onError = (error) => (session.lost ??= error); // the next statement reports it
		if (session.pooled)
			session.client.on('error', session.onError);
		try {
			if (typeof session.client.getTransactionStatus !== 'function')
				throw new TypeError('a client or a pool of pg 8.21 or later is wanted');
			if (!readOnly)
				Session.mayWrite(session.client);
			session.own = !session.inTransaction() && !taken.has(session.client);
			if (session.own) {
				taken.add(session.client);
				await session.client.query(readOnly ? 'BEGIN READ ONLY' : 'BEGIN');
			}
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

	// Why the connection was lost: node-postgres says only that it is not queryable.
	reason(error) {
		return this.lost && error.code === undefined ? this.lost : error;
	}

	async query(text, values) {
		try {
			return await this.client.query(text, values);
		} catch (error) {
			throw this.reason(error);
		}
	}

	release(error) {
		if (this.own)
			taken.delete(this.client);
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
