package pgsecurefile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
)

// What WriteTo asks for at once.  If the writer fails, that much is read, and dropped.
const streamBytes = 16 << 20

// A Reader reads one version of a value: the one that it was opened on, whatever becomes of
// the row.  It is an io.ReadSeeker, io.ReaderAt, io.WriterTo and io.Closer; its methods
// may be called by several goroutines.
//
// Reads that follow each other read ahead, up to 4 MB in one statement.  Between two calls
// the connection is free for other statements.
type Reader struct {
	lock       sync.Mutex
	t          transaction
	v          Value
	sql        string
	handle     int32
	size       int64
	position   int64
	sequential int64 // where the last read has ended
	window     int64 // bytes to read ahead
	ahead      []byte
	aheadFrom  int64
	closed     bool
}

var _ interface {
	io.ReadSeekCloser
	io.ReaderAt
	io.WriterTo
} = (*Reader)(nil)

// Open opens a value for reading.  No row, and NULL, are an error for which
// errors.Is(err, fs.ErrNotExist) is true.  The context holds for the Reader's whole life.
func (v Value) Open(ctx context.Context, db DB) (*Reader, error) {
	if err := v.check(); err != nil {
		return nil, err
	}
	t, err := begin(ctx, db)
	if err != nil {
		return nil, err
	}
	r := &Reader{t: t, v: v, sql: v.readStatement()}
	if err := r.open(); err != nil {
		if t.own {
			t.giveUp(v, 0)
		}
		return nil, err
	}
	return r, nil
}

// readStatement gives rows of a range.  Each row seeks first, so nobody has to know the
// server's position.
func (v Value) readStatement() string {
	return fmt.Sprintf("SELECT %s($1, $2 + o, 0), %s($1, LEAST($4, $3 - o)::int4) FROM generate_series(0::int8, $3 - 1, $4) AS o",
		v.function("securefile_seek"), v.function("securefile_read"))
}

func (r *Reader) open() error {
	var s statement
	sql := fmt.Sprintf("SELECT %s(%s, 'r'), length(%s)", r.v.function("securefile_open"), r.v.column(), r.v.column())
	rows, err := r.t.tx.Query(r.t.ctx, sql+r.v.from(&s)+" LIMIT 2", s.parameters...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var handle *int32
	var size *int64
	count := 0
	for ; rows.Next(); count++ {
		if err := rows.Scan(&handle, &size); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if count > 1 {
		return r.v.severalRows()
	}
	if handle == nil {
		return r.v.missing()
	}
	r.handle, r.size = *handle, *size
	return nil
}

// Size is the length of the value.
func (r *Reader) Size() int64 { return r.size }

// fetch hands bytes of a range to take, by one statement, a piece at a time.
func (r *Reader) fetch(from, length int64, take func([]byte) error) error {
	if length <= 0 {
		return nil
	}
	rows := r.t.conn().ExecParams(r.t.ctx, r.sql,
		[][]byte{int4(r.handle), int8(from), int8(length), int8(pieceBytes)}, readTypes, binaryForm, binaryForm)
	var failed error
	for failed == nil && rows.NextRow() {
		piece := rows.Values()[1]
		length -= int64(len(piece))
		failed = take(piece)
	}
	_, err := rows.Close() // takes the rest
	if failed == nil && err == nil && length != 0 {
		err = io.ErrUnexpectedEOF
	}
	if failed == nil {
		return err
	}
	return failed
}

// fill reads a range into a buffer.
func (r *Reader) fill(buffer []byte, from int64) error {
	done := 0
	return r.fetch(from, int64(len(buffer)), func(piece []byte) error {
		done += copy(buffer[done:], piece)
		return nil
	})
}

// held gives the bytes from a position on that were read ahead.
func (r *Reader) held(from int64) []byte {
	at := from - r.aheadFrom
	if at < 0 || at >= int64(len(r.ahead)) {
		return nil
	}
	return r.ahead[at:]
}

func (r *Reader) readAhead() error {
	end := (r.position/pieceBytes)*pieceBytes + r.window
	length := min(end, r.size) - r.position
	if int64(cap(r.ahead)) < length {
		r.ahead = make([]byte, 0, length)
	}
	r.ahead, r.aheadFrom = r.ahead[:length], r.position
	err := r.fill(r.ahead, r.position)
	if err != nil {
		r.ahead = r.ahead[:0]
	}
	return err
}

// Read reads up to len(p) bytes from the position on.
func (r *Reader) Read(p []byte) (int, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	switch {
	case r.closed:
		return 0, fs.ErrClosed
	case len(p) == 0:
		return 0, nil
	case r.position >= r.size:
		return 0, io.EOF
	}
	n := copy(p, r.held(r.position))
	if n == 0 {
		var err error
		if n, err = r.readMore(p); err != nil {
			return 0, err
		}
	}
	r.position += int64(n)
	r.sequential = r.position
	return n, nil
}

// readMore asks the server: reads that follow each other ask for more than is wanted, twice
// as much each time.
func (r *Reader) readMore(p []byte) (int, error) {
	want := min(int64(len(p)), r.size-r.position)
	if r.position > 0 && r.position == r.sequential {
		r.window = min(max(2*r.window, 2*pieceBytes), windowBytes)
	} else {
		r.window = 0
	}
	if want >= r.window {
		return int(want), r.fill(p[:want], r.position)
	}
	if err := r.readAhead(); err != nil {
		return 0, err
	}
	return copy(p, r.ahead), nil
}

// ReadAt reads len(p) bytes from an offset on; it neither uses nor moves the position.
func (r *Reader) ReadAt(p []byte, offset int64) (int, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.closed {
		return 0, fs.ErrClosed
	}
	if offset < 0 {
		return 0, errors.New("pgsecurefile: negative offset")
	}
	want := max(min(int64(len(p)), r.size-offset), 0)
	n := copy(p[:want], r.held(offset))
	if err := r.fill(p[n:want], offset+int64(n)); err != nil {
		return n, err
	}
	if want < int64(len(p)) {
		return int(want), io.EOF
	}
	return int(want), nil
}

// Seek sets the position.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.closed {
		return 0, fs.ErrClosed
	}
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.position
	case io.SeekEnd:
		offset += r.size
	default:
		return 0, fmt.Errorf("pgsecurefile: no such whence: %d", whence)
	}
	if offset < 0 {
		return 0, errors.New("pgsecurefile: negative position")
	}
	r.position = offset
	return offset, nil
}

// WriteTo writes the bytes from the position on, in pieces, while they arrive.  So its
// writer cannot use the connection meanwhile, but for a [Writer] that is handed to WriteTo, or
// to io.Copy, itself.
func (r *Reader) WriteTo(w io.Writer) (int64, error) {
	if to, is := w.(*Writer); is && to.shares(r.t) {
		return to.ReadFrom(r)
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.closed {
		return 0, fs.ErrClosed
	}
	start := r.position
	take := func(piece []byte) error {
		n, err := w.Write(piece)
		r.position += int64(n)
		if err == nil && n < len(piece) {
			err = io.ErrShortWrite
		}
		return err
	}
	var err error
	if held := r.held(r.position); len(held) > 0 {
		err = take(held)
	}
	for err == nil && r.position < r.size {
		err = r.fetch(r.position, min(r.size-r.position, streamBytes), take)
	}
	r.sequential = r.position
	return r.position - start, err
}

// Close ends the Reader, and its transaction if that is its own.  What the program has changed
// on its connection meanwhile is committed.
func (r *Reader) Close() error {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.closed {
		return fs.ErrClosed
	}
	r.closed = true
	r.ahead = nil
	if r.t.own && r.t.usable() {
		return r.t.commit()
	}
	return r.t.giveUp(r.v, r.handle)
}
