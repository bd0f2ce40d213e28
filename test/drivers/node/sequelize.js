import { DataTypes, Sequelize } from 'sequelize';
import { close, column, connection, equal, open, reset, roundTrips } from './orm.js';

// ---- what doc/drivers.md shows ----

function defineDoc(sequelize) {
	return sequelize.define('Doc', {
		id: { type: DataTypes.BIGINT, primaryKey: true },
		name: DataTypes.TEXT,
		document: 'securefile(nocache)',
	}, { tableName: 'docs', timestamps: false });
}

// ---- tests ----

function defineBlob(sequelize) {
	return sequelize.define('Blob', {
		id: { type: DataTypes.BIGINT, primaryKey: true },
		name: DataTypes.TEXT,
		document: DataTypes.BLOB,
	}, { tableName: 'docs', timestamps: false });
}

async function using(define, use) {
	const sequelize = new Sequelize(connection.database, connection.username, '', { ...connection, dialect: 'postgres', logging: false });
	try {
		return await use(define(sequelize), sequelize);
	} finally {
		await sequelize.close();
	}
}

export async function testSequelize(run) {
	const client = await open();
	try {
		for (const [what, define] of [['securefile', defineDoc], ['BLOB', defineBlob]])
			await using(define, async (Doc) => {
				await reset(client);
				const read = async (id) => (await Doc.findByPk(id)).document;
				await roundTrips(run, client, `${what}: create()`, (id, document) => Doc.create({ id, document }), read);
				await roundTrips(run, client, `${what}: update()`, (id, document) => Doc.update({ document }, { where: { id } }), read);
				await roundTrips(run, client, `${what}: upsert()`, (id, document) => Doc.upsert({ id, document }), read);
				await roundTrips(run, client, `${what}: bulkCreate()`,
					(id, document) => Doc.bulkCreate([{ id, document }], { updateOnDuplicate: ['document'] }), read);
			});
		for (const [what, define, options, type] of [
			['sync() leaves the column', defineDoc, {}, 'securefile, 1'],
			['sync({ alter }) sets the options', defineDoc, { alter: true }, 'securefile(nocache), 1'],
			['sync({ force }) makes it', defineDoc, { force: true }, 'securefile(nocache), 0'],
			['BLOB: sync() leaves the column', defineBlob, {}, 'securefile, 1'],
			['BLOB: sync({ alter }) turns it into bytea', defineBlob, { alter: true }, 'bytea, 1'],
		])
			await run(what, async () => {
				await reset(client);
				await using(define, (Doc, sequelize) => sequelize.sync(options));
				equal(await column(client), type);
			});
	} finally {
		await close(client);
	}
}
