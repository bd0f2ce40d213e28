package pgsecurefile

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

func TestReaderIsAReader(t *testing.T) {
	ctx, conn := connect(t)
	for _, length := range []int{0, 1, 3000} {
		data := random(length)
		put(t, conn, "a", data)
		r, err := doc("a").Open(ctx, conn)
		ok(t, err)
		ok(t, iotest.TestReader(r, data))
		ok(t, r.Close())
	}
}

// Reads, seeks and reads at offsets at random, beside a bytes.Reader.
func TestReaderBesideBytesReader(t *testing.T) {
	ctx, conn := connect(t)
	data := random(3<<20 + 11)
	put(t, conn, "a", data)
	r, err := doc("a").Open(ctx, conn)
	ok(t, err)
	defer r.Close()
	like := bytes.NewReader(data)
	for i := range 400 {
		n := int(data[i]) * int(data[i+1000]) * (1 + int(data[i+2000])%20)
		at := (int64(data[i+3000])<<16 | int64(data[i+4000])<<8 | int64(data[i+5000])) % (4 << 20)
		got, want := make([]byte, n), make([]byte, n)
		var gotN, wantN int
		var gotErr, wantErr error
		switch data[i+6000] % 8 {
		case 0:
			gotN, gotErr = r.ReadAt(got, at)
			wantN, wantErr = like.ReadAt(want, at)
		case 1:
			r.Seek(at, io.SeekStart)
			like.Seek(at, io.SeekStart)
			fallthrough
		default:
			gotN, gotErr = io.ReadFull(r, got)
			wantN, wantErr = io.ReadFull(like, want)
		}
		if gotN != wantN || !bytes.Equal(got, want) || gotErr != wantErr {
			t.Fatalf("step %d: %d bytes, %v; should be %d, %v", i, gotN, gotErr, wantN, wantErr)
		}
	}
}

func TestReadAtByGoroutines(t *testing.T) {
	ctx, conn := connect(t)
	data := random(1<<20 + 5)
	put(t, conn, "a", data)
	r, err := doc("a").Open(ctx, conn)
	ok(t, err)
	defer r.Close()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			part := make([]byte, 100_000)
			at := int64(i) * 120_000
			if _, err := r.ReadAt(part, at); err != nil || !bytes.Equal(part, data[at:at+100_000]) {
				t.Errorf("at %d: %v", at, err)
			}
		})
	}
	all.Wait()
}

func TestOneVersion(t *testing.T) {
	ctx, conn := connect(t)
	pool := poolOf(t, "2")
	old := random(2 << 20)
	put(t, pool, "a", old)
	r, err := doc("a").Open(ctx, pool)
	ok(t, err)
	defer r.Close()
	put(t, conn, "a", []byte("new"))
	_, err = conn.Exec(ctx, "DELETE FROM go_docs")
	ok(t, err)
	var read bytes.Buffer
	_, err = r.WriteTo(&read)
	ok(t, err)
	if !bytes.Equal(read.Bytes(), old) {
		t.Fatal("the reader does not read what it was opened on")
	}
}

func TestServeContent(t *testing.T) {
	_, conn := connect(t)
	pool := poolOf(t, "2")
	data := random(3 << 20)
	put(t, conn, "a.bin", data)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		name, tag := request.URL.Path[1:], `"1"`
		r, err := doc(name).Open(request.Context(), pool)
		if errors.Is(err, fs.ErrNotExist) {
			http.NotFound(w, request)
			return
		}
		if err != nil {
			http.Error(w, "the file cannot be read", http.StatusServiceUnavailable)
			return
		}
		defer r.Close()
		w.Header().Set("ETag", tag) // what changes with the value: from a column with its time or digest
		http.ServeContent(w, request, name, time.Time{}, r)
	}))
	defer server.Close()
	for _, c := range []struct {
		header, value string
		status        int
		body          []byte
	}{
		{"X", "", 200, data},
		{"Range", "bytes=1000000-2999999", 206, data[1000000:3000000]},
		{"Range", "bytes=-5", 206, data[len(data)-5:]},
		{"Range", "bytes=9000000-", 416, nil},
		{"If-None-Match", `"1"`, 304, nil},
	} {
		request, _ := http.NewRequest("GET", server.URL+"/a.bin", nil)
		request.Header.Set(c.header, c.value)
		answer, err := http.DefaultClient.Do(request)
		ok(t, err)
		body, err := io.ReadAll(answer.Body)
		ok(t, err)
		answer.Body.Close()
		if answer.StatusCode != c.status || c.body != nil && !bytes.Equal(body, c.body) {
			t.Fatalf("%s %s: status %d, %d bytes", c.header, c.value, answer.StatusCode, len(body))
		}
	}
	status := func(name string) int {
		answer, err := http.Get(server.URL + "/" + name)
		ok(t, err)
		answer.Body.Close()
		return answer.StatusCode
	}
	if got := status("none"); got != 404 {
		t.Fatalf("no value: status %d", got)
	}
	pool.Close()
	if got := status("a.bin"); got != 503 {
		t.Fatalf("no server: status %d", got)
	}
}

// A failing writer costs no connection: the Reader goes on where it was.
func TestWriterFails(t *testing.T) {
	ctx, conn := connect(t)
	_, err := conn.Exec(ctx, "INSERT INTO go_docs VALUES ('a', securefile_truncate('x'::securefile, 10000000000000))")
	ok(t, err)
	r, err := doc("a").Open(ctx, conn)
	ok(t, err)
	reader, writer := io.Pipe()
	go func() {
		io.CopyN(io.Discard, reader, 1<<20)
		reader.Close()
	}()
	n, err := r.WriteTo(writer)
	if !errors.Is(err, io.ErrClosedPipe) || n != 1<<20 {
		t.Fatalf("WriteTo returned %d, %v", n, err)
	}
	part := make([]byte, 10)
	_, err = io.ReadFull(r, part)
	ok(t, err)
	ok(t, r.Close())
	holds(t, conn, "b", put2(t, conn))
}

// A writerFunc is an io.Writer.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A writer that has taken less than all is not called again.
func TestShortWrite(t *testing.T) {
	ctx, conn := connect(t)
	put(t, conn, "a", random(2<<20))
	r, err := doc("a").Open(ctx, conn)
	ok(t, err)
	calls := 0
	n, err := r.WriteTo(writerFunc(func(p []byte) (int, error) { calls++; return 5, nil }))
	if err != io.ErrShortWrite || n != 5 || calls != 1 {
		t.Fatalf("WriteTo returned %d, %v after %d calls", n, err, calls)
	}
	ok(t, r.Close())
}

func put2(t *testing.T, db DB) []byte {
	put(t, db, "b", []byte("short"))
	return []byte("short")
}

func TestMissing(t *testing.T) {
	ctx, conn := connect(t)
	_, err := conn.Exec(ctx, "INSERT INTO go_docs VALUES ('null', NULL), ('empty', '')")
	ok(t, err)
	isMissing(t, conn, "none")
	isMissing(t, conn, "null")
	holds(t, conn, "empty", nil)
	_, err = doc("none").Open(ctx, conn)
	if err == nil || !strings.Contains(err.Error(), "go_docs.document(name: none)") {
		t.Fatalf("Open returned %v", err)
	}
	if status := conn.PgConn().TxStatus(); status != 'I' {
		t.Fatalf("a transaction was left: %c", status)
	}
	many := doc("x")
	many.Key = Columns{"owner": "both"}
	_, err = conn.Exec(ctx, "UPDATE go_docs SET owner = 'both', document = 'x'")
	ok(t, err)
	if _, err = many.Open(ctx, conn); err == nil {
		t.Fatal("two rows have the key")
	}
	for _, length := range []int{10, 3 << 20} {
		_, err = many.Put(ctx, conn, bytes.NewReader(random(length)))
		if err == nil || !strings.Contains(err.Error(), "several rows are go_docs.document(owner: both)") {
			t.Fatalf("Put returned %v", err)
		}
	}
	holds(t, conn, "null", []byte("x"))
	holds(t, conn, "empty", []byte("x"))
}
