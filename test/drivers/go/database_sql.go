package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
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

// A sqlHandle writes to a handle of its transaction, each time by a statement.
type sqlHandle struct {
	ctx    context.Context
	tx     *sql.Tx
	number int
}

func (h sqlHandle) Write(piece []byte) (int, error) {
	_, err := h.tx.ExecContext(h.ctx, "SELECT securefile_write($1, $2)", h.number, piece)
	if err != nil {
		return 0, err
	}
	return len(piece), nil
}

// sqlUpload stores a file of any length in pieces of 1 MB.  An error of the file, as
// io.ErrUnexpectedEOF where a request is cut off, is returned, and nothing is stored.
func sqlUpload(ctx context.Context, db *sql.DB, id int, name string, file io.Reader) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after Commit it does nothing
	handle := sqlHandle{ctx: ctx, tx: tx}
	err = tx.QueryRowContext(ctx, "SELECT securefile_create('docs', 'document')").Scan(&handle.number)
	if err != nil {
		return err
	}
	pieces := bufio.NewWriterSize(handle, 1<<20)
	// the struct hides WriteTo(), which could write the whole file as one piece
	if _, err = io.Copy(pieces, struct{ io.Reader }{file}); err != nil {
		return err
	}
	if err = pieces.Flush(); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx,
		"INSERT INTO docs (id, name, document) VALUES ($1, $2, securefile_finish($3))",
		id, name, handle.number)
	if err != nil {
		return err
	}
	return tx.Commit()
}

// sqlDownload reads a file of any length in pieces of 256 KB.  If "to" fails, the
// statement is cancelled.
func sqlDownload(ctx context.Context, db *sql.DB, id int, to io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	oneSnapshot := sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	tx, err := db.BeginTx(ctx, &oneSnapshot)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var length int64 // as for Content-Length
	err = tx.QueryRowContext(ctx, "SELECT length(document) FROM docs WHERE id = $1", id).Scan(&length)
	if err != nil {
		return err // sql.ErrNoRows if there is no row; another one if there is NULL
	}
	rows, err := tx.QueryContext(ctx, "SELECT securefile_chunks(document) FROM docs WHERE id = $1", id)
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
			cancel() // else Close() reads the rest of the file, and drops it
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
	s.run("an upload whose source ends early", s.cutOff)
	s.run("a download that is given up", s.givenUp)
	s.run("a download of no row, and of NULL", s.nothing)
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

// The first 3 MB of a file, then io.ErrUnexpectedEOF as often as it is asked.
func (s sqlTests) cutOff() error {
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	err := sqlUpload(ctx, s.db, 51, "cut off", cutOffFile())
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the upload returned: %v", err)
	}
	var rows int
	err = s.db.QueryRowContext(s.ctx, "SELECT count(*) FROM docs WHERE id = 51").Scan(&rows)
	if err == nil && rows != 0 {
		err = fmt.Errorf("there are %d rows", rows)
	}
	return err
}

func (s sqlTests) givenUp() error {
	if _, err := s.db.ExecContext(s.ctx, insertEndless, 52); err != nil {
		return err
	}
	return soon(s.ctx, func(ctx context.Context) error {
		if err := sqlDownload(ctx, s.db, 52, closedPipe()); err != io.ErrClosedPipe {
			return fmt.Errorf("the download returned: %v", err)
		}
		_, err := s.db.ExecContext(s.ctx, "DELETE FROM docs WHERE id = 52")
		return err
	})
}

func (s sqlTests) nothing() error {
	var read bytes.Buffer
	if err := sqlDownload(s.ctx, s.db, 99, &read); !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("of no row: %v", err)
	}
	if err := sqlDownload(s.ctx, s.db, 0, &read); err == nil || errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("of NULL: %v", err)
	}
	return same(read.Bytes(), nil)
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
	failures := make([]error, len(smallPayloads()))
	for i, payload := range smallPayloads() {
		group.Add(1)
		go func() {
			defer group.Done()
			failures[i] = sqlInsert(s.ctx, s.db, 300+i, payload.name, payload.data)
		}()
	}
	group.Wait()
	for _, err := range failures {
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
