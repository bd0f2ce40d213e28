// COPY TO STDOUT in binary format, for rows of one bytea: results of node-postgres are text,
// twice as long, and made a string first.

const SIGNATURE_BYTES = 11 + 4; // and flags

export class CopyOut {
	#rest;
	#begun = false;

	// take() is called with each row's bytes, which are valid until it returns.
	constructor(text, take) {
		this.text = text;
		this.take = take;
		this.done = new Promise((resolve, reject) => {
			this.resolve = resolve;
			this.reject = reject;
		});
		this.callback = () => {}; // for a client with query_timeout
	}

	// ---- what node-postgres calls ----

	submit(connection) {
		connection.query(this.text);
	}

	handleRowDescription() {}

	handleDataRow() {}

	handleCommandComplete() {}

	handleCopyData(message) {
		let data = message.chunk;
		if (this.#rest)
			data = Buffer.concat([this.#rest, data]);
		const used = this.#begun ? 0 : this.#header(data);
		const rest = data.subarray(used < 0 ? 0 : this.#rows(data, used));
		this.#rest = rest.length > 0 ? Buffer.from(rest) : undefined;
	}

	handleError(error) {
		this.reject(error);
		this.callback(error);
	}

	handleReadyForQuery() {
		this.resolve();
		this.callback(null);
	}

	// ---- the format ----

	#header(data) {
		if (data.length < SIGNATURE_BYTES + 4)
			return -1;
		const end = SIGNATURE_BYTES + 4 + data.readInt32BE(SIGNATURE_BYTES);
		if (data.length < end)
			return -1;
		this.#begun = true;
		return end;
	}

	// Hand on the rows that are complete; where they end.
	#rows(data, at) {
		while (data.length >= at + 6) { // how many columns: 1; the first one's length
			const end = at + 6 + data.readInt32BE(at + 2);
			if (end > data.length)
				break;
			this.take(data.subarray(at + 6, end));
			at = end;
		}
		return data.length === at + 2 && data.readInt16BE(at) === -1 ? data.length : at;
	}
}
