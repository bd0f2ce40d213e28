package pgsecurefile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A Writer writes new contents of a value, which Close stores: in the row that is there, or
// in a new one.  Abort stores nothing, and neither does a Writer that has met an error.  It
// is an io.WriteCloser and io.ReaderFrom, for one goroutine at a time.
//
// Up to 1 MB the contents go as a parameter, with Close.  Longer ones go in pieces: up to
// 4 MB are gathered, and sent in one pipeline.  Between two calls the connection is free.
type Writer struct {
	ctx    context.Context
	db     DB
	t      transaction
	v      Value
	handle int32
	open   bool // there is a handle
	buffer []byte
	ended  bool
	err    error // the first one
}

var _ interface {
	io.WriteCloser
	io.ReaderFrom
} = (*Writer)(nil)

// Create begins new contents of a value.  The context holds for the Writer's whole life.
//
//	w := value.Create(ctx, db)
//	defer w.Abort() // does nothing after Close
func (v Value) Create(ctx context.Context, db DB) *Writer {
	return &Writer{ctx: ctx, db: db, v: v, err: v.check()}
}

func (w *Writer) check() error {
	if w.ended {
		return fs.ErrClosed
	}
	return w.err
}

// fail keeps the first error.
func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = err
	}
	return err
}

// Write appends bytes.
func (w *Writer) Write(p []byte) (int, error) {
	if err := w.check(); err != nil {
		return 0, err
	}
	done := 0
	for done < len(p) {
		if len(w.buffer) == 0 && len(p)-done >= windowBytes {
			if err := w.send(p[done : done+windowBytes]); err != nil {
				return done, err
			}
			done += windowBytes
			continue
		}
		room, err := w.room(len(p) - done)
		if err != nil {
			return done, err
		}
		n := copy(room, p[done:])
		w.buffer = w.buffer[:len(w.buffer)+n]
		done += n
	}
	return done, nil
}

// ReadFrom appends all that a reader gives.  An error of the reader, but io.EOF, is
// returned, and the contents will not be stored.
func (w *Writer) ReadFrom(source io.Reader) (int64, error) {
	if err := w.check(); err != nil {
		return 0, err
	}
	var done int64
	for idle := 0; ; {
		room, err := w.room(1)
		if err != nil {
			return done, err
		}
		n, err := source.Read(room)
		w.buffer = w.buffer[:len(w.buffer)+n]
		done += int64(n)
		if err == io.EOF {
			return done, nil
		}
		if idle++; n > 0 {
			idle = 0
		}
		if err == nil && idle == 100 {
			err = io.ErrNoProgress
		}
		if err != nil {
			return done, w.fail(err)
		}
	}
}

// shares tells whether the Writer uses the connection of a transaction.
func (w *Writer) shares(t transaction) bool {
	tx, given := w.db.(pgx.Tx)
	return given && tx.Conn() == t.tx.Conn()
}

// room makes room for some of the wanted bytes: the buffer grows to a window, which is sent
// when it is full.
func (w *Writer) room(want int) ([]byte, error) {
	if len(w.buffer) == windowBytes {
		if err := w.send(w.buffer); err != nil {
			return nil, err
		}
		w.buffer = w.buffer[:0]
	}
	if len(w.buffer) == cap(w.buffer) {
		size := min(max(2*cap(w.buffer), len(w.buffer)+want, 32<<10), windowBytes)
		w.buffer = append(make([]byte, 0, size), w.buffer...)
	}
	return w.buffer[len(w.buffer):cap(w.buffer)], nil
}

func (w *Writer) create() (err error) {
	if w.t, err = begin(w.ctx, w.db); err != nil {
		return err
	}
	w.open = true
	sql := "SELECT " + w.v.function("securefile_create") + "($1::text::regclass, $2)"
	return w.t.tx.QueryRow(w.ctx, sql, w.v.table(), w.v.Column).Scan(&w.handle)
}

// send writes bytes to the handle, in one pipeline.
func (w *Writer) send(data []byte) error {
	if !w.open {
		if err := w.create(); err != nil {
			return w.fail(err)
		}
	}
	pipeline := w.t.conn().StartPipeline(w.ctx)
	// the statement without a name is nobody's
	pipeline.SendPrepare("", "SELECT "+w.v.function("securefile_write")+"($1, $2)", writeTypes)
	handle := int4(w.handle)
	for len(data) > 0 {
		n := min(len(data), pieceBytes)
		pipeline.SendQueryPrepared("", [][]byte{handle, data[:n]}, binaryForm, binaryForm)
		if err := pipeline.Flush(); err != nil {
			break // the answers tell why
		}
		data = data[n:]
	}
	if err := answers(pipeline); err != nil {
		return w.fail(err)
	}
	return nil
}

// answers takes all answers of a pipeline, and gives the first error.
func answers(pipeline *pgconn.Pipeline) error {
	failed := pipeline.Sync()
	for {
		results, err := pipeline.GetResults()
		if rows, is := results.(*pgconn.ResultReader); is {
			_, err = rows.Close()
		}
		if failed == nil {
			failed = err
		}
		var ofServer *pgconn.PgError
		if _, synced := results.(*pgconn.PipelineSync); synced || results == nil && !errors.As(err, &ofServer) {
			break
		}
	}
	if err := pipeline.Close(); failed == nil {
		failed = err
	}
	return failed
}

// Close stores the contents; in a transaction of the Writer, it commits.  If the Writer has
// met an error, Close stores nothing, and returns that error.
func (w *Writer) Close() error {
	if err := w.check(); err != nil {
		w.Abort()
		return err
	}
	err := w.v.storeError(w.store())
	if err != nil {
		w.fail(err)
		w.Abort()
	}
	w.ended = true
	w.buffer = nil
	return err
}

func (w *Writer) store() error {
	if !w.open && len(w.buffer) <= valueBytes {
		return w.storeValue()
	}
	if len(w.buffer) > 0 {
		if err := w.send(w.buffer); err != nil {
			return err
		}
	}
	var s statement
	value := w.v.function("securefile_finish") + "(" + s.parameter(w.handle) + ")"
	if _, err := w.t.tx.Exec(w.ctx, w.v.store(&s, value), s.parameters...); err != nil {
		return err
	}
	if !w.t.own {
		return nil
	}
	return w.t.tx.Commit(w.ctx)
}

func (w *Writer) storeValue() error {
	if w.buffer == nil {
		w.buffer = []byte{} // nil would be NULL
	}
	var s statement
	value := s.parameter(w.buffer)
	_, err := w.db.Exec(w.ctx, w.v.store(&s, value), s.parameters...)
	return err
}

// Abort gives the contents up, and rolls back if the transaction is the Writer's own.  After
// Close it does nothing.
func (w *Writer) Abort() error {
	if w.ended {
		return nil
	}
	w.ended = true
	w.buffer = nil
	if !w.open || w.t.tx == nil {
		return nil
	}
	if err := w.t.giveUp(w.v, w.handle); err != nil {
		return fmt.Errorf("pgsecurefile: giving up: %w", err)
	}
	return nil
}
