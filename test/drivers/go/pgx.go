package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// ---- what doc/drivers.md shows ----

func pgxInsert(ctx context.Context, conn *pgx.Conn, id int, name string, document []byte) error {
	_, err := conn.Exec(ctx, "INSERT INTO docs (id, name, document) VALUES ($1, $2, $3)",
		id, name, document)
	return err
}

func pgxSelect(ctx context.Context, conn *pgx.Conn, id int) (document []byte, err error) {
	err = conn.QueryRow(ctx, "SELECT document FROM docs WHERE id = $1", id).Scan(&document)
	return document, err
}

// ---- tests ----

type pgxTests struct {
	*tester
	conn *pgx.Conn
}

func testPgx(t *tester) error {
	conn, err := pgx.Connect(t.ctx, "")
	if err != nil {
		return err
	}
	defer conn.Close(t.ctx)
	if _, err = conn.Exec(t.ctx, createTable); err != nil {
		return err
	}
	defer conn.Exec(t.ctx, dropTable)

	p := pgxTests{t, conn}
	for id, payload := range payloads() {
		t.run("INSERT and SELECT, "+payload.name, func() error { return p.insertAndSelect(id, payload) })
	}
	for name, mode := range map[string]pgx.QueryExecMode{
		"cache_statement": pgx.QueryExecModeCacheStatement,
		"cache_describe":  pgx.QueryExecModeCacheDescribe,
		"describe_exec":   pgx.QueryExecModeDescribeExec,
		"exec":            pgx.QueryExecModeExec,
		"simple_protocol": pgx.QueryExecModeSimpleProtocol,
	} {
		t.run("QueryExecMode "+name, func() error { return p.execMode(mode) })
	}
	t.run("prepared statement used again", p.prepared)
	t.run("text format of results", p.textResults)
	t.run("Batch", p.batch)
	t.run("CopyFrom", p.copyFrom)
	t.run("upsert, RETURNING", p.upsert)
	t.run("WHERE document = $1", p.find)
	t.run("bytea[] as a parameter", p.arrays)
	t.run("CollectRows into a struct", p.collect)
	t.run("cursor", p.cursor)
	t.run("pool", p.pool)
	t.run("type of the column", p.columnType)
	return nil
}

func (p pgxTests) exec(sql string, arguments ...any) error {
	_, err := p.conn.Exec(p.ctx, sql, arguments...)
	return err
}

// check reads a value back, and asks the server for its MD5.
func (p pgxTests) check(id int, written []byte) error {
	read, err := pgxSelect(p.ctx, p.conn, id)
	if err != nil {
		return err
	}
	if err = same(read, written); err != nil {
		return err
	}
	var serverMD5 *string
	err = p.conn.QueryRow(p.ctx, "SELECT md5(document) FROM docs WHERE id = $1", id).Scan(&serverMD5)
	if err != nil {
		return err
	}
	return sameOnServer(serverMD5, written)
}

func (p pgxTests) checkAll(firstID int) error {
	for i, payload := range smallPayloads() {
		if err := p.check(firstID+i, payload.data); err != nil {
			return fmt.Errorf("%s: %w", payload.name, err)
		}
	}
	return nil
}

func (p pgxTests) insertAndSelect(id int, payload payload) error {
	if err := pgxInsert(p.ctx, p.conn, id, payload.name, payload.data); err != nil {
		return err
	}
	return p.check(id, payload.data)
}

func (p pgxTests) execMode(mode pgx.QueryExecMode) error {
	for i, payload := range smallPayloads() {
		id := 100 + i
		err := p.exec("INSERT INTO docs (id, document) VALUES ($1, $2)", mode, id, payload.data)
		if err != nil {
			return fmt.Errorf("%s: %w", payload.name, err)
		}
		var read []byte
		err = p.conn.QueryRow(p.ctx, "SELECT document FROM docs WHERE id = $1", mode, id).Scan(&read)
		if err != nil {
			return fmt.Errorf("%s: %w", payload.name, err)
		}
		if err = same(read, payload.data); err != nil {
			return fmt.Errorf("%s: %w", payload.name, err)
		}
	}
	if err := p.checkAll(100); err != nil {
		return err
	}
	return p.exec("DELETE FROM docs WHERE id >= 100 AND id < 200")
}

func (p pgxTests) prepared() error {
	if _, err := p.conn.Prepare(p.ctx, "update_document", "UPDATE docs SET document = $2 WHERE id = $1 RETURNING document"); err != nil {
		return err
	}
	if err := p.exec("INSERT INTO docs (id) VALUES (200)"); err != nil {
		return err
	}
	for _, payload := range append(smallPayloads(), smallPayloads()...) {
		var returned []byte
		err := p.conn.QueryRow(p.ctx, "update_document", 200, payload.data).Scan(&returned)
		if err != nil {
			return fmt.Errorf("%s: %w", payload.name, err)
		}
		if err = same(returned, payload.data); err != nil {
			return fmt.Errorf("%s: %w", payload.name, err)
		}
		if err = p.check(200, payload.data); err != nil {
			return fmt.Errorf("%s: %w", payload.name, err)
		}
	}
	return nil
}

func (p pgxTests) textResults() error {
	for id, payload := range smallPayloads() {
		var read []byte
		err := p.conn.QueryRow(p.ctx, "SELECT document FROM docs WHERE id = $1",
			pgx.QueryResultFormats{pgx.TextFormatCode}, id).Scan(&read)
		if err != nil {
			return err
		}
		if err = same(read, payload.data); err != nil {
			return fmt.Errorf("%s: %w", payload.name, err)
		}
	}
	return nil
}

func (p pgxTests) batch() error {
	batch := &pgx.Batch{}
	for i, payload := range smallPayloads() {
		batch.Queue("INSERT INTO docs (id, document) VALUES ($1, $2)", 300+i, payload.data)
	}
	if err := p.conn.SendBatch(p.ctx, batch).Close(); err != nil {
		return err
	}
	return p.checkAll(300)
}

func (p pgxTests) copyFrom() error {
	rows := [][]any{}
	for i, payload := range smallPayloads() {
		rows = append(rows, []any{400 + i, payload.name, payload.data})
	}
	_, err := p.conn.CopyFrom(p.ctx, pgx.Identifier{"docs"}, []string{"id", "name", "document"}, pgx.CopyFromRows(rows))
	if err != nil {
		return err
	}
	return p.checkAll(400)
}

func (p pgxTests) upsert() error {
	for round := 0; round < 2; round++ {
		for i, payload := range smallPayloads() {
			var returned []byte
			err := p.conn.QueryRow(p.ctx,
				`INSERT INTO docs (id, document) VALUES ($1, $2)
				 ON CONFLICT (id) DO UPDATE SET document = EXCLUDED.document RETURNING document`,
				500+i, payload.data).Scan(&returned)
			if err != nil {
				return err
			}
			if err = same(returned, payload.data); err != nil {
				return fmt.Errorf("%s: %w", payload.name, err)
			}
		}
	}
	return p.checkAll(500)
}

func (p pgxTests) find() error {
	for id, payload := range smallPayloads()[1:] {
		var found int
		err := p.conn.QueryRow(p.ctx, "SELECT min(id) FROM docs WHERE document = $1", payload.data).Scan(&found)
		if err != nil {
			return err
		}
		if found != id+1 {
			return fmt.Errorf("%s: found row %d", payload.name, found)
		}
	}
	return nil
}

func (p pgxTests) arrays() error {
	ids, documents := []int{}, [][]byte{}
	for i, payload := range smallPayloads() {
		ids = append(ids, 600+i)
		documents = append(documents, payload.data)
	}
	err := p.exec("INSERT INTO docs (id, document) SELECT * FROM unnest($1::bigint[], $2::bytea[])", ids, documents)
	if err != nil {
		return err
	}
	if err = p.checkAll(600); err != nil {
		return err
	}
	var count int
	err = p.conn.QueryRow(p.ctx, "SELECT count(*) FROM docs WHERE id BETWEEN 600 AND 699 AND document = ANY($1::bytea[])",
		documents[2:5]).Scan(&count)
	if err != nil {
		return err
	}
	if count != 3 {
		return fmt.Errorf("found %d rows", count)
	}
	return nil
}

func (p pgxTests) collect() error {
	type doc struct {
		ID       int
		Name     *string
		Document []byte
	}
	rows, err := p.conn.Query(p.ctx, "SELECT * FROM docs WHERE id < 50 ORDER BY id")
	if err != nil {
		return err
	}
	docs, err := pgx.CollectRows(rows, pgx.RowToStructByName[doc])
	if err != nil {
		return err
	}
	for i, payload := range smallPayloads() {
		if err = same(docs[i].Document, payload.data); err != nil {
			return fmt.Errorf("%s: %w", payload.name, err)
		}
	}
	return nil
}

func (p pgxTests) cursor() error {
	return pgx.BeginFunc(p.ctx, p.conn, func(tx pgx.Tx) error {
		_, err := tx.Exec(p.ctx, "DECLARE c CURSOR FOR SELECT document FROM docs WHERE id < 50 ORDER BY id")
		if err != nil {
			return err
		}
		for _, payload := range smallPayloads() {
			var read []byte
			if err = tx.QueryRow(p.ctx, "FETCH 1 FROM c").Scan(&read); err != nil {
				return err
			}
			if err = same(read, payload.data); err != nil {
				return fmt.Errorf("%s: %w", payload.name, err)
			}
		}
		return nil
	})
}

func (p pgxTests) pool() error {
	pool, err := pgxpool.New(p.ctx, "")
	if err != nil {
		return err
	}
	defer pool.Close()
	results := make(chan error)
	for i, payload := range smallPayloads() {
		go func() {
			_, err := pool.Exec(p.ctx, "INSERT INTO docs (id, document) VALUES ($1, $2)", 700+i, payload.data)
			results <- err
		}()
	}
	for range smallPayloads() {
		if failed := <-results; failed != nil {
			err = failed
		}
	}
	if err != nil {
		return err
	}
	return p.checkAll(700)
}

func (p pgxTests) columnType() error {
	rows, err := p.conn.Query(p.ctx, "SELECT document FROM docs WHERE false")
	if err != nil {
		return err
	}
	rows.Close()
	if oid := rows.FieldDescriptions()[0].DataTypeOID; oid != pgtype.ByteaOID {
		return fmt.Errorf("the column has the type %d", oid)
	}
	var catalog string
	err = p.conn.QueryRow(p.ctx, `SELECT format_type(atttypid, atttypmod) FROM pg_attribute
		WHERE attrelid = 'docs'::regclass AND attname = 'document'`).Scan(&catalog)
	if err == nil && catalog != "securefile" {
		err = fmt.Errorf("the catalog says %s", catalog)
	}
	return err
}
