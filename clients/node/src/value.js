// Where a value lies, and the statements about it.

// Up to here a value goes as a parameter or a result.
export const VALUE_BYTES = 1024 * 1024;

// A range is that of fs.createReadStream(): integers, or no end.
export function checkRange(start, end) {
	const whole = (position) => Number.isInteger(position);
	if (!whole(start) || start < 0 || !(whole(end) || end === Infinity) || end < start - 1)
		throw new RangeError(`no such range: ${String(start)} to ${String(end)}`);
}

export class NoSuchValue extends Error {
	constructor(value) {
		super(`there is no value for ${value.table}.${value.column}, ${JSON.stringify(value.key)}`);
		this.name = 'NoSuchValue';
		this.code = 'ENOENT';
	}
}

function quoted(name) {
	return `"${name.replaceAll('"', '""')}"`;
}

// A statement gathers parameters.
export class Statement {
	values = [];

	parameter(value) {
		this.values.push(value);
		return `$${this.values.length}`;
	}

	// Names of columns, and the parameters' places.
	assign(columns) {
		return Object.entries(columns).map(([name, value]) => [quoted(name), this.parameter(value)]);
	}
}

function pairs(assigned, between) {
	return assigned.map(([name, place]) => `${name} = ${place}`).join(between);
}

// The names that a caller has given, in SQL.
export class Place {
	constructor(value) {
		const named = [value?.table, value?.column].every((name) => typeof name === 'string' && name !== '');
		if (!named || Object.keys(value.key ?? {}).length === 0)
			throw new TypeError('a value needs table and column, which are strings, and key');
		const dot = value.table.indexOf('.');
		this.value = value;
		this.table = dot < 0 ? quoted(value.table)
			: `${quoted(value.table.slice(0, dot))}.${quoted(value.table.slice(dot + 1))}`;
		this.column = quoted(value.column);
	}

	function(name) {
		return this.value.schema === undefined ? name : `${quoted(this.value.schema)}.${name}`;
	}

	from(statement) {
		return `FROM ${this.table} WHERE ${pairs(statement.assign(this.value.key), ' AND ')}`;
	}

	severalRows(cause) {
		return new Error(`several rows of ${this.value.table} have the key ${JSON.stringify(this.value.key)}`, { cause });
	}

	// Stores a value in the row that is there, or in a new one.  The subquery is an error
	// (21000), and no row is changed, if there are several.
	store(statement, what) {
		const set = [[this.column, what], ...statement.assign(this.value.set ?? {})];
		const key = statement.assign(this.value.key);
		const all = [...set, ...key];
		return `WITH changed AS (UPDATE ${this.table} SET ${pairs(set, ', ')} WHERE ${pairs(key, ' AND ')}
				AND (SELECT 1 FROM ${this.table} WHERE ${pairs(key, ' AND ')}) = 1 RETURNING 1)
			INSERT INTO ${this.table} (${all.map(([name]) => name).join(', ')})
			SELECT ${all.map(([, place]) => place).join(', ')} WHERE NOT EXISTS (SELECT FROM changed)`;
	}
}
