package main

import (
	"database/sql"
	"fmt"

	"github.com/lib/pq"
)

// ---- what doc/drivers.md shows ----

// libPqCopy stores many documents by COPY.  NULL is nil, not []byte(nil).
func libPqCopy(db *sql.DB, firstID int, documents []any) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	statement, err := tx.Prepare(pq.CopyIn("docs", "id", "document"))
	if err != nil {
		return err
	}
	for i, document := range documents {
		if _, err = statement.Exec(firstID+i, document); err != nil {
			return err
		}
	}
	if _, err = statement.Exec(); err != nil { // sends what is left
		return err
	}
	if err = statement.Close(); err != nil {
		return err
	}
	return tx.Commit()
}

// ---- tests ----

func testLibPq(t *tester) error {
	for _, options := range []string{"", "binary_parameters=yes"} {
		db, err := sql.Open("postgres", options)
		if err != nil {
			return err
		}
		defer db.Close()
		if options != "" {
			t.stack += " " + options
		}
		s := sqlTests{t, db}
		err = s.all(func() {
			s.run("COPY", s.libPqCopy)
			s.run("bytea[] as a parameter", s.libPqArrays)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s sqlTests) libPqCopy() error {
	documents := []any{}
	for _, payload := range smallPayloads() {
		if payload.data == nil {
			documents = append(documents, nil)
		} else {
			documents = append(documents, payload.data)
		}
	}
	if err := libPqCopy(s.db, 400, documents); err != nil {
		return err
	}
	return s.checkAll(400)
}

func (s sqlTests) libPqArrays() error {
	documents := pq.ByteaArray{}
	for _, payload := range smallPayloads()[2:5] {
		documents = append(documents, payload.data)
	}
	for _, cast := range []string{"", "::bytea[]"} {
		var count int
		err := s.db.QueryRowContext(s.ctx,
			"SELECT count(*) FROM docs WHERE id < 50 AND document = ANY($1"+cast+")", documents).Scan(&count)
		if err != nil {
			return err
		}
		if count != 3 {
			return fmt.Errorf("found %d rows", count)
		}
	}
	return nil
}
