import { once } from 'node:events';
import { pipeline } from 'node:stream/promises';
import { ReadStream } from './read.js';
import { closed } from './session.js';

// What a Range header asks for: null for the whole value, false for what there is not.
function rangeOf(header, length) {
	const found = /^bytes=\s*(\d*)\s*-\s*(\d*)\s*$/.exec(header);
	if (!found || (found[1] === '' && found[2] === ''))
		return null;
	const start = found[1] === '' ? Math.max(length - Number(found[2]), 0) : Number(found[1]);
	const end = found[1] === '' || found[2] === '' ? length - 1 : Math.min(Number(found[2]), length - 1);
	if (found[1] !== '' && found[2] !== '' && Number(found[2]) < start)
		return null;
	return start < length && start <= end ? { start, end } : false;
}

function hasTag(header, tag) {
	return header.split(',').some((one) => ['*', tag, `W/${tag}`].includes(one.trim()));
}

// Status, headers and range of the answer to a GET or HEAD (RFC 9110).
function replyTo(headers, length, tag) {
	const common = { ETag: tag, 'Accept-Ranges': 'bytes' };
	if (headers['if-none-match'] !== undefined && hasTag(headers['if-none-match'], tag))
		return { status: 304, headers: common };
	const condition = headers['if-range'];
	if (headers.range !== undefined && (condition === undefined || condition.trim() === tag)) {
		const range = rangeOf(headers.range, length);
		if (range === false)
			return { status: 416, headers: { ...common, 'Content-Range': `bytes */${length}`, 'Content-Length': 0 } };
		if (range)
			return {
				status: 206, range,
				headers: {
					...common, 'Content-Range': `bytes ${range.start}-${range.end}/${length}`,
					'Content-Length': range.end - range.start + 1,
				},
			};
	}
	return { status: 200, range: { start: 0, end: length - 1 }, headers: { ...common, 'Content-Length': length } };
}

function end(response, status, headers = {}) {
	response.writeHead(status, headers);
	response.end();
}

// Answers a GET or HEAD request with a value: ranges, ETag, If-Range, If-None-Match; 404 if
// there is none.  The promise is fulfilled when the answer is sent, or its client is gone.
export async function serve(db, value, request, response, { headers = {} } = {}) {
	if (request.method !== 'GET' && request.method !== 'HEAD')
		return end(response, 405, { Allow: 'GET, HEAD' });
	const stream = new ReadStream(db, value);
	try {
		await once(stream, 'ready');
	} catch (error) {
		if (error.code !== 'ENOENT')
			throw error;
		return end(response, 404);
	}
	const reply = replyTo(request.headers, stream.length, `"${stream.length.toString(16)}-${stream.version}"`);
	if (request.method === 'HEAD' || !reply.range) {
		await closed(stream);
		return end(response, reply.status, { ...headers, ...reply.headers });
	}
	try {
		response.writeHead(reply.status, { ...headers, ...reply.headers });
		stream.range(reply.range.start, reply.range.end);
		await pipeline(stream, response);
	} catch (error) {
		if (error.code !== 'ERR_STREAM_PREMATURE_CLOSE')
			throw error;
	} finally {
		await closed(stream);
	}
}
