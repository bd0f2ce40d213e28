package pgsecurefile

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestLengths(t *testing.T) {
	ctx, conn := connect(t)
	for _, length := range []int{0, 1, pieceBytes, valueBytes, valueBytes + 1, windowBytes, windowBytes + 1, 9<<20 + 7} {
		data := random(length)
		put(t, conn, "a", data) // a new row first, then the one that is there
		holds(t, conn, "a", data)
		all, err := doc("a").Bytes(ctx, conn)
		ok(t, err)
		if !bytes.Equal(all, data) {
			t.Fatalf("Bytes returned %d bytes, should be %d", len(all), length)
		}
	}
	ok(t, doc("nothing").Create(ctx, conn).Close())
	holds(t, conn, "nothing", nil)
	put(t, conn, "b", []byte(`\x4142`))
	holds(t, conn, "b", []byte(`\x4142`))
}

// Writes of all sizes, and then a reader's bytes.
func TestWriteAndReadFrom(t *testing.T) {
	ctx, conn := connect(t)
	data := random(12<<20 + 3)
	w := doc("a").Create(ctx, conn)
	rest := data
	for _, n := range []int{1, 0, 100_000, 5 << 20, 3, 2 << 20} {
		_, err := w.Write(rest[:n])
		ok(t, err)
		rest = rest[n:]
	}
	// the struct hides WriteTo()
	_, err := io.Copy(w, iotest.HalfReader(struct{ io.Reader }{bytes.NewReader(rest)}))
	ok(t, err)
	ok(t, w.Close())
	ok(t, w.Abort())
	if _, err = w.Write(rest); !errors.Is(err, fs.ErrClosed) {
		t.Fatalf("Write after Close returned %v", err)
	}
	holds(t, conn, "a", data)
}

// dbs gives everything that a DB can be.
func dbs(t *testing.T, use func(DB)) {
	ctx, conn := connect(t)
	use(conn)
	pool := poolOf(t, "1")
	use(pool)
	ofPool, err := pool.Acquire(ctx)
	ok(t, err)
	use(ofPool)
	ofPool.Release()
	ok(t, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { use(tx); return nil }))
	ok(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { use(tx); return nil }))
}

func TestAbortStoresNothing(t *testing.T) {
	data := random(6 << 20)
	dbs(t, func(db DB) {
		put(t, db, "kept", []byte("old"))
		w := doc("kept").Create(t.Context(), db)
		_, err := w.Write(data)
		ok(t, err)
		ok(t, w.Abort())
		if err = w.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Fatalf("Close after Abort returned %v", err)
		}
		holds(t, db, "kept", []byte("old"))
	})
}

func TestSourceFails(t *testing.T) {
	dbs(t, func(db DB) {
		put(t, db, "kept", []byte("old"))
		for _, length := range []int{10, 6 << 20} {
			source := io.MultiReader(bytes.NewReader(random(length)), iotest.ErrReader(io.ErrUnexpectedEOF))
			if _, err := doc("kept").Put(t.Context(), db, source); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("Put returned %v", err)
			}
			holds(t, db, "kept", []byte("old"))
		}
		w := doc("kept").Create(t.Context(), db)
		_, err := w.ReadFrom(io.MultiReader(bytes.NewReader(random(6<<20)), iotest.ErrReader(io.ErrUnexpectedEOF)))
		if closed := w.Close(); err != io.ErrUnexpectedEOF || closed != err {
			t.Fatalf("ReadFrom returned %v, Close %v", err, closed)
		}
		holds(t, db, "kept", []byte("old"))
	})
}

// Abort leaves no handle in the caller's transaction.
func TestHandleIsClosed(t *testing.T) {
	ctx, conn := connect(t)
	tx, err := conn.Begin(ctx)
	ok(t, err)
	defer tx.Rollback(ctx)
	w := doc("a").Create(ctx, tx)
	_, err = w.Write(random(5 << 20))
	ok(t, err)
	ok(t, w.Abort())
	_, err = tx.Exec(ctx, "SELECT securefile_tell($1)", w.handle)
	var ofServer *pgconn.PgError
	if !errors.As(err, &ofServer) || ofServer.Code != "42704" {
		t.Fatalf("securefile_tell() returned %v", err)
	}
}

// In a pgx.Tx all is the caller's: several readers and writers at once, and its end.
func TestCallersTransaction(t *testing.T) {
	ctx, conn := connect(t)
	tx, err := conn.Begin(ctx)
	ok(t, err)
	one, two := random(2<<20+1), random(2<<20+2)
	w1, w2 := doc("1").Create(ctx, tx), doc("2").Create(ctx, tx)
	for at := 0; at < 2<<20; at += 1 << 20 {
		w1.Write(one[at : at+1<<20])
		w2.Write(two[at : at+1<<20])
	}
	w1.Write(one[2<<20:])
	w2.Write(two[2<<20:])
	ok(t, w1.Close())
	ok(t, w2.Close())
	r1, err := doc("1").Open(ctx, tx)
	ok(t, err)
	r2, err := doc("2").Open(ctx, tx)
	ok(t, err)
	ok(t, iotestPrefix(r1, one))
	ok(t, iotestPrefix(r2, two))
	ok(t, r1.Close())
	ok(t, r2.Close())
	ok(t, tx.Rollback(ctx))
	isMissing(t, conn, "1")
}

func iotestPrefix(r io.Reader, data []byte) error {
	all, err := io.ReadAll(r)
	if err == nil && !bytes.Equal(all, data) {
		err = errors.New("other bytes")
	}
	return err
}

// A context that ends between two statements costs no connection.
// One value into another, in one transaction: neither holds the connection while the other
// wants it.
func TestCopyInTransaction(t *testing.T) {
	ctx, conn := connect(t)
	put(t, conn, "a", random(9<<20))
	ok(t, pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		r, err := doc("a").Open(ctx, tx)
		ok(t, err)
		w := doc("b").Create(ctx, tx)
		if n, err := io.Copy(w, r); err != nil || n != 9<<20 {
			t.Fatalf("Copy returned %d, %v", n, err)
		}
		ok(t, w.Close())
		return r.Close()
	}))
	holds(t, conn, "b", random(9<<20))
}

// What a program writes on the connection of its Reader stays; no second transaction begins
// in the first.
func TestReadersTransaction(t *testing.T) {
	ctx, conn := connect(t)
	put(t, conn, "a", random(2<<20))
	r, err := doc("a").Open(ctx, conn)
	ok(t, err)
	put(t, conn, "b", []byte("short"))
	if _, err = doc("c").Put(ctx, conn, bytes.NewReader(random(2<<20))); err == nil || !strings.Contains(err.Error(), "pgx.Tx") {
		t.Fatalf("Put returned %v", err)
	}
	ok(t, r.Close())
	holds(t, conn, "b", []byte("short"))
	isMissing(t, conn, "c")
	holds(t, poolOf(t, "1"), "b", []byte("short"))
}

func TestCancelled(t *testing.T) {
	_, conn := connect(t)
	for _, db := range []DB{conn, poolOf(t, "1")} {
		put(t, db, "kept", []byte("old"))
		ctx, cancel := context.WithCancel(t.Context())
		source := io.MultiReader(bytes.NewReader(random(6<<20)), readerFunc(func(p []byte) (int, error) {
			cancel()
			return copy(p, random(1000)), nil
		}))
		if _, err := doc("kept").Put(ctx, db, source); !errors.Is(err, context.Canceled) {
			t.Fatalf("Put returned %v", err)
		}
		holds(t, db, "kept", []byte("old"))
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestConnectionIsLost(t *testing.T) {
	ctx, conn := connect(t)
	put(t, conn, "kept", random(6<<20))
	broken, err := pgx.Connect(ctx, "")
	ok(t, err)
	r, err := doc("kept").Open(ctx, broken)
	ok(t, err)
	part := make([]byte, 1000)
	_, err = r.Read(part)
	ok(t, err)
	end(t, conn, broken)
	if _, err = io.Copy(io.Discard, r); err == nil {
		t.Fatal("reads go on")
	}
	ok(t, r.Close())

	broken, err = pgx.Connect(ctx, "")
	ok(t, err)
	w := doc("kept").Create(ctx, broken)
	_, err = w.Write(random(5 << 20))
	ok(t, err)
	end(t, conn, broken)
	_, writeErr := w.Write(random(5 << 20))
	if err = w.Close(); writeErr == nil || err != writeErr {
		t.Fatalf("Write returned %v, Close %v", writeErr, err)
	}
	holds(t, conn, "kept", random(6<<20))
}

func end(t *testing.T, conn, other *pgx.Conn) {
	t.Helper()
	_, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend($1, 10000)", other.PgConn().PID())
	ok(t, err)
}

// The server's error is what the program sees, and a pool's connection is free again.
func TestServerRefuses(t *testing.T) {
	_, conn := connect(t)
	pool := poolOf(t, "1")
	wrong := doc("a")
	wrong.Table = "go_nowhere"
	for _, length := range []int{10, 6 << 20} {
		_, err := wrong.Put(t.Context(), pool, bytes.NewReader(random(length)))
		var ofServer *pgconn.PgError
		if !errors.As(err, &ofServer) || ofServer.Code != "42P01" {
			t.Fatalf("Put returned %v", err)
		}
	}
	holds(t, pool, "b", put2(t, conn))
	if _, err := (Value{Table: "t"}).Put(t.Context(), pool, bytes.NewReader(nil)); err == nil {
		t.Fatal("a Value without a key")
	}
}

func TestNames(t *testing.T) {
	ctx, conn := connect(t)
	_, err := conn.Exec(ctx, `DROP SCHEMA IF EXISTS "go odd" CASCADE; CREATE SCHEMA "go odd";
		CREATE TABLE "go odd"."ta""ble" ("na%me" text, part int, "doc ument" securefile, owner text, PRIMARY KEY ("na%me", part))`)
	ok(t, err)
	v := Value{Table: `go odd.ta"ble`, Column: "doc ument", Key: Columns{"na%me": "x", "part": 2}, Set: Columns{"owner": "me"}, Schema: "public"}
	data := random(2 << 20)
	for _, d := range [][]byte{data, data[:100], data} {
		_, err = v.Put(ctx, conn, bytes.NewReader(d))
		ok(t, err)
		all, err := v.Bytes(ctx, conn)
		ok(t, err)
		if !bytes.Equal(all, d) {
			t.Fatal("other bytes")
		}
	}
	var owner string
	ok(t, conn.QueryRow(ctx, `SELECT owner FROM "go odd"."ta""ble"`).Scan(&owner))
	if owner != "me" {
		t.Fatalf("owner is %s", owner)
	}
	_, err = conn.Exec(ctx, `DROP SCHEMA "go odd" CASCADE`)
	ok(t, err)
}

func TestQueryExecModes(t *testing.T) {
	ctx, _ := connect(t)
	for _, mode := range []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
		conn, err := pgx.Connect(ctx, "default_query_exec_mode="+mode)
		ok(t, err)
		for _, length := range []int{0, 10, 2 << 20} {
			put(t, conn, mode, random(length))
			holds(t, conn, mode, random(length))
		}
		conn.Close(ctx)
	}
}

// How often a program waits for the server: 40 MB in pieces of 1000 bytes.
func TestRoundTrips(t *testing.T) {
	ctx, _ := connect(t)
	conn, turns := countingConn(t)
	data := random(40 << 20)
	w := doc("a").Create(ctx, conn)
	for at := 0; at < len(data); at += 1000 {
		_, err := w.Write(data[at:min(at+1000, len(data))])
		ok(t, err)
	}
	ok(t, w.Close())
	if n := turns.Swap(0); n > 30 {
		t.Errorf("%d round trips to write 40 MB", n)
	}
	r, err := doc("a").Open(ctx, conn)
	ok(t, err)
	if err = iotestPrefix(r, data); err != nil {
		t.Error(err)
	}
	ok(t, r.Close())
	if n := turns.Swap(0); n > 30 {
		t.Errorf("%d round trips to read 40 MB", n)
	}
	put(t, conn, "b", data[:1000])
	turns.Store(0)
	put(t, conn, "b", data[:1000])
	holds(t, conn, "b", data[:1000])
	if n := turns.Load(); n > 4 {
		t.Errorf("%d round trips for 1000 bytes", n)
	}
}
