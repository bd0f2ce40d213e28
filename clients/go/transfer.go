package pgsecurefile

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/jackc/pgx/v5"
)

// Put stores all that a reader gives, and returns its length.  If anything fails, also the
// reader, nothing is stored.
func (v Value) Put(ctx context.Context, db DB, source io.Reader) (int64, error) {
	w := v.Create(ctx, db)
	defer w.Abort()
	length, err := w.ReadFrom(source)
	if err == nil {
		err = w.Close()
	}
	return length, err
}

// Get writes a value to w, and returns its length.  Up to 1 MB it needs one statement.
func (v Value) Get(ctx context.Context, db DB, to io.Writer) (int64, error) {
	short, err := v.getShort(ctx, db)
	if err != nil {
		return 0, err
	}
	if short != nil {
		return io.Copy(to, bytes.NewReader(short))
	}
	r, err := v.Open(ctx, db)
	if err != nil {
		return 0, err
	}
	length, err := r.WriteTo(to)
	return length, errors.Join(err, r.Close())
}

// Bytes returns a value, which has to fit into memory.
func (v Value) Bytes(ctx context.Context, db DB) ([]byte, error) {
	short, err := v.getShort(ctx, db)
	if err != nil || short != nil {
		return short, err
	}
	r, err := v.Open(ctx, db)
	if err != nil {
		return nil, err
	}
	all := make([]byte, r.Size())
	_, err = r.ReadAt(all, 0)
	return all, errors.Join(err, r.Close())
}

// getShort gives a value of up to 1 MB; nil for a longer one, and for NULL.
func (v Value) getShort(ctx context.Context, db DB) ([]byte, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	var s statement
	column, border := v.column(), s.parameter(int64(valueBytes))
	sql := "SELECT CASE WHEN length(" + column + ") <= " + border + "::int8 THEN " + column + " END"
	var short []byte
	err := db.QueryRow(ctx, sql+v.from(&s), s.parameters...).Scan(&short)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, v.missing()
	}
	return short, err
}
