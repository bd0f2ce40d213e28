package pgsecurefile

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The server is the one that PGHOST and the like name; its database has the extension.
func TestMain(m *testing.M) {
	if os.Getenv("PGHOST") == "" {
		panic("set PGHOST, PGPORT, PGUSER and PGDATABASE: a server with the extension")
	}
	os.Exit(m.Run())
}

const schema = `DROP TABLE IF EXISTS go_docs;
	CREATE TABLE go_docs (name text PRIMARY KEY, document securefile, owner text)`

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func random(length int) []byte {
	data := make([]byte, length)
	rand.New(rand.NewSource(int64(length))).Read(data)
	return data
}

// connect gives a connection of its own and an empty table.
func connect(t *testing.T) (context.Context, *pgx.Conn) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), "")
	ok(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	_, err = conn.Exec(t.Context(), schema)
	ok(t, err)
	return t.Context(), conn
}

func poolOf(t *testing.T, connections string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "pool_max_conns="+connections)
	ok(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func doc(name string) Value {
	return Value{Table: "go_docs", Column: "document", Key: Columns{"name": name}}
}

func put(t *testing.T, db DB, name string, data []byte) {
	t.Helper()
	length, err := doc(name).Put(t.Context(), db, bytes.NewReader(data))
	ok(t, err)
	if length != int64(len(data)) {
		t.Fatalf("Put returned %d, should be %d", length, len(data))
	}
}

// holds compares a value with what was written, also by its length as the server knows it.
func holds(t *testing.T, db DB, name string, data []byte) {
	t.Helper()
	var read bytes.Buffer
	_, err := doc(name).Get(t.Context(), db, &read)
	ok(t, err)
	if !bytes.Equal(read.Bytes(), data) {
		t.Fatalf("%s: read %d bytes, should be the %d that were written", name, read.Len(), len(data))
	}
}

func isMissing(t *testing.T, db DB, name string) {
	t.Helper()
	if _, err := doc(name).Get(t.Context(), db, io.Discard); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s: Get returned %v", name, err)
	}
}

// A turnCounter counts how often a program waits for the server after it has sent something.
type turnCounter struct {
	net.Conn
	sent  atomic.Bool
	turns *atomic.Int64
}

func (c *turnCounter) Write(p []byte) (int, error) {
	c.sent.Store(true)
	return c.Conn.Write(p)
}

func (c *turnCounter) Read(p []byte) (int, error) {
	if c.sent.Swap(false) {
		c.turns.Add(1)
	}
	return c.Conn.Read(p)
}

func countingConn(t *testing.T) (*pgx.Conn, *atomic.Int64) {
	t.Helper()
	turns := new(atomic.Int64)
	config, err := pgx.ParseConfig("")
	ok(t, err)
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &turnCounter{Conn: conn, turns: turns}, err
	}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	ok(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn, turns
}
