// Values of PostgreSQL's type securefile as streams, over node-postgres (index.d.ts).

import { ReadStream } from './read.js';
import { WriteStream } from './write.js';

export { serve } from './http.js';
export { get, put } from './transfer.js';
export { NoSuchValue } from './value.js';
export { ReadStream, WriteStream };

export function createReadStream(db, value, options) {
	return new ReadStream(db, value, options);
}

export function createWriteStream(db, value, options) {
	return new WriteStream(db, value, options);
}
