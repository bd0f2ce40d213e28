import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { put, serve } from 'pgsecurefile';
import { all, doc, MB, random, same, withPool } from './common.js';

const data = random(9 * MB + 1);

async function withServer(client, use) {
	await put(client, doc('a'), data);
	await client.query("INSERT INTO node_docs VALUES ('empty', '')");
	await withPool(1, async (pool) => {
		const server = createServer((asked, response) => {
			serve(pool, doc(asked.url.slice(1)), asked, response, { headers: { 'Content-Type': 'video/mp4' } })
				.catch(() => response.destroy());
		});
		server.listen(0, '127.0.0.1');
		await once(server, 'listening');
		try {
			await use(server.address().port, pool);
		} finally {
			server.close();
			server.closeAllConnections();
		}
	});
}

async function ask(port, path, headers = {}, method = 'GET') {
	const asked = request({ port, host: '127.0.0.1', path, headers, method, agent: false });
	asked.end();
	const [answer] = await once(asked, 'response');
	return { status: answer.statusCode, headers: answer.headers, body: await all(answer) };
}

export async function answers(client) {
	await withServer(client, async (port) => {
		const whole = await ask(port, '/a');
		assert.equal(whole.status, 200);
		same(whole.body, data);
		assert.equal(whole.headers['content-type'], 'video/mp4');
		const { etag } = whole.headers;
		const none = Buffer.alloc(0);
		const cases = [
			['/a', { range: 'bytes=1000000-6999999' }, 206, data.subarray(1000000, 7000000), `bytes 1000000-6999999/${data.length}`],
			['/a', { range: 'bytes=-5' }, 206, data.subarray(-5)],
			['/a', { range: 'bytes=9000000-' }, 206, data.subarray(9000000)],
			['/a', { range: 'bytes=0-99999999' }, 206, data],
			['/a', { range: 'bytes=99999999-' }, 416, none, `bytes */${data.length}`],
			['/a', { range: 'bytes=-0' }, 416, none],
			['/a', { range: 'bytes=5-2' }, 200, data],
			['/a', { range: 'bytes=0-1,5-6' }, 200, data],
			['/a', { range: 'bytes=0-1', 'if-range': etag }, 206, data.subarray(0, 2)],
			['/a', { range: 'bytes=0-1', 'if-range': '"other"' }, 200, data],
			['/a', { 'if-none-match': `"x", ${etag}` }, 304, none],
			['/a', { 'if-none-match': '"x"' }, 200, data],
			['/empty', {}, 200, none],
			['/empty', { range: 'bytes=0-' }, 416, none],
			['/none', {}, 404, none],
		];
		for (const [path, headers, status, body, range] of cases) {
			const answer = await ask(port, path, headers);
			assert.equal(answer.status, status, JSON.stringify(headers));
			same(answer.body, body);
			if (range)
				assert.equal(answer.headers['content-range'], range);
		}
		const head = await ask(port, '/a', {}, 'HEAD');
		assert.equal(head.headers['content-length'], String(data.length));
		assert.equal((await ask(port, '/a', {}, 'POST')).status, 405);
		await put(client, doc('a'), data);
		assert.notEqual((await ask(port, '/a', {}, 'HEAD')).headers.etag, etag);
	});
}

// A header that cannot be sent costs the pool no client.
export async function headerIsRefused(client) {
	await withServer(client, async (port, pool) => {
		const response = { writeHead() { throw new TypeError('no such header'); } };
		await assert.rejects(serve(pool, doc('a'), { method: 'GET', headers: {} }, response), /no such header/);
		assert.equal((await ask(port, '/empty')).status, 200);
	});
}

// A client that goes away in the middle of 10 TB: the pool's only connection is free again.
export async function clientGoesAway(client) {
	await withServer(client, async (port) => {
		await client.query("UPDATE node_docs SET document = securefile_truncate(document, 10000000000000) WHERE name = 'a'");
		const asked = request({ port, host: '127.0.0.1', path: '/a', agent: false });
		asked.on('error', () => {});
		asked.end();
		const [answer] = await once(asked, 'response');
		answer.on('error', () => {});
		await once(answer, 'data');
		asked.destroy();
		assert.equal((await ask(port, '/empty')).status, 200);
	});
}
