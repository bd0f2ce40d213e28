package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"sync"

	_ "github.com/jackc/pgx/v5/stdlib"
)

// ---- what doc/drivers.md shows ----

func sqlInsert(ctx context.Context, db *sql.DB, id int, name string, document []byte) error {
	_, err := db.ExecContext(ctx, "INSERT INTO docs (id, name, document) VALUES ($1, $2, $3)",
		id, name, document)
	return err
}

func sqlSelect(ctx context.Context, db *sql.DB, id int) (document []byte, err error) {
	err = db.QueryRowContext(ctx, "SELECT document FROM docs WHERE id = $1", id).Scan(&document)
	return document, err
}

// sqlUpload stores a file of any length in pieces of 1 MB.
func sqlUpload(ctx context.Context, db *sql.DB, id int, name string, file io.Reader) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	var handle int
	err = tx.QueryRowContext(ctx, "SELECT securefile_create('docs', 'document')").Scan(&handle)
	if err != nil {
		return err
	}
	piece := make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(file, piece)
		if err == io.EOF {
			break
		}
		if err != nil && err != io.ErrUnexpectedEOF {
			return err
		}
		_, err = tx.ExecContext(ctx, "SELECT securefile_write($1, $2)", handle, piece[:n])
		if err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx,
		"INSERT INTO docs (id, name, document) VALUES ($1, $2, securefile_finish($3))",
		id, name, handle)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// sqlDownload reads a file of any length in pieces of 256 KB.
func sqlDownload(ctx context.Context, db *sql.DB, id int, to io.Writer) error {
	rows, err := db.QueryContext(ctx, "SELECT securefile_chunks(document) FROM docs WHERE id = $1", id)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var piece sql.RawBytes // points into the driver's buffer
		if err := rows.Scan(&piece); err != nil {
			return err
		}
		if _, err := to.Write(piece); err != nil {
			return err
		}
	}
	return rows.Err()
}

// ---- tests, of each driver under database/sql ----

type sqlTests struct {
	*tester
	db *sql.DB
}

func testDatabaseSQL(t *tester) error {
	db, err := sql.Open("pgx", "")
	if err != nil {
		return err
	}
	defer db.Close()
	return sqlTests{t, db}.all(nil)
}

func (s sqlTests) all(more func()) error {
	if _, err := s.db.ExecContext(s.ctx, createTable); err != nil {
		return err
	}
	defer s.db.ExecContext(s.ctx, dropTable)
	s.stores("INSERT and SELECT")
	large := streamed()
	s.run("pieces, "+large.name, func() error { return s.pieces(large) })
	s.run("prepared statement used again", s.prepared)
	s.run("upsert, RETURNING", s.upsert)
	s.run("WHERE document = $1", s.find)
	s.run("concurrent sessions", s.concurrent)
	s.run("type of the column", s.columnType)
	if more != nil {
		more()
	}
	return nil
}

func (s sqlTests) stores(what string) {
	for id, payload := range payloads() {
		s.run(what+", "+payload.name, func() error {
			if err := sqlInsert(s.ctx, s.db, id, payload.name, payload.data); err != nil {
				return err
			}
			return s.check(id, payload.data)
		})
	}
}

// check reads a value back, and asks the server for its MD5.
func (s sqlTests) check(id int, written []byte) error {
	read, err := sqlSelect(s.ctx, s.db, id)
	if err != nil {
		return err
	}
	if err = same(read, written); err != nil {
		return err
	}
	var serverMD5 *string
	err = s.db.QueryRowContext(s.ctx, "SELECT md5(document) FROM docs WHERE id = $1", id).Scan(&serverMD5)
	if err != nil {
		return err
	}
	return sameOnServer(serverMD5, written)
}

func (s sqlTests) checkAll(firstID int) error {
	for i, payload := range smallPayloads() {
		if err := s.check(firstID+i, payload.data); err != nil {
			return fmt.Errorf("%s: %w", payload.name, err)
		}
	}
	return nil
}

func (s sqlTests) pieces(payload payload) error {
	const id = 50
	err := sqlUpload(s.ctx, s.db, id, payload.name, bytes.NewReader(payload.data))
	if err != nil {
		return err
	}
	var read bytes.Buffer
	if err = sqlDownload(s.ctx, s.db, id, &read); err != nil {
		return err
	}
	return same(read.Bytes(), payload.data)
}

func (s sqlTests) prepared() error {
	statement, err := s.db.PrepareContext(s.ctx, "INSERT INTO docs (id, document) VALUES ($1, $2)")
	if err != nil {
		return err
	}
	defer statement.Close()
	for i, payload := range smallPayloads() {
		if _, err = statement.ExecContext(s.ctx, 100+i, payload.data); err != nil {
			return fmt.Errorf("%s: %w", payload.name, err)
		}
	}
	return s.checkAll(100)
}

func (s sqlTests) upsert() error {
	for round := 0; round < 2; round++ {
		for i, payload := range smallPayloads() {
			var returned []byte
			err := s.db.QueryRowContext(s.ctx,
				`INSERT INTO docs (id, document) VALUES ($1, $2)
				 ON CONFLICT (id) DO UPDATE SET document = EXCLUDED.document RETURNING document`,
				200+i, payload.data).Scan(&returned)
			if err != nil {
				return err
			}
			if err = same(returned, payload.data); err != nil {
				return fmt.Errorf("%s: %w", payload.name, err)
			}
		}
	}
	return s.checkAll(200)
}

func (s sqlTests) find() error {
	for id, payload := range smallPayloads()[1:] {
		var found int
		err := s.db.QueryRowContext(s.ctx, "SELECT min(id) FROM docs WHERE document = $1", payload.data).Scan(&found)
		if err != nil {
			return err
		}
		if found != id+1 {
			return fmt.Errorf("%s: found row %d", payload.name, found)
		}
	}
	return nil
}

func (s sqlTests) concurrent() error {
	var group sync.WaitGroup
	errors := make([]error, len(smallPayloads()))
	for i, payload := range smallPayloads() {
		group.Add(1)
		go func() {
			defer group.Done()
			errors[i] = sqlInsert(s.ctx, s.db, 300+i, payload.name, payload.data)
		}()
	}
	group.Wait()
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	return s.checkAll(300)
}

func (s sqlTests) columnType() error {
	rows, err := s.db.QueryContext(s.ctx, "SELECT document FROM docs WHERE id = 2")
	if err != nil {
		return err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	if name := types[0].DatabaseTypeName(); name != "BYTEA" {
		return fmt.Errorf("the column has the type %s", name)
	}
	var value any
	if !rows.Next() {
		return fmt.Errorf("there is no row")
	}
	if err = rows.Scan(&value); err != nil {
		return err
	}
	bytes, isBytes := value.([]byte)
	if !isBytes {
		return fmt.Errorf("the value is a %T", value)
	}
	return same(bytes, smallPayloads()[2].data)
}
