import { createReadStream, createWriteStream } from 'node:fs';
import { createServer } from 'node:http';
import pg from 'pg';
import { get, put, serve } from 'pgsecurefile';

const pool = new pg.Pool(); // the server that PGHOST and the like name
await pool.query('CREATE TABLE IF NOT EXISTS videos (name text PRIMARY KEY, document securefile)');
const video = (name) => ({ table: 'videos', column: 'document', key: { name } });

await put(pool, video('program'), createReadStream(process.argv[1])); // any stream, of any length
await get(pool, video('program'), createWriteStream(`${process.argv[1]}.copy`));
console.log(String(await get(pool, video('program'), undefined, { start: 0, end: 5 })));

const server = createServer((request, response) => { // ranges, too: GET /program
	serve(pool, video(request.url.slice(1)), request, response).catch(() => response.destroy());
});
if (process.argv[2])
	server.listen(process.argv[2]);
else
	await pool.end();
