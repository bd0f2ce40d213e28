package main

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"testing/iotest"
	"time"
)

// A payload is a value to store; NULL has no data.
type payload struct {
	name string
	data []byte
}

func random(length int) []byte {
	data := make([]byte, length)
	rand.New(rand.NewSource(int64(length))).Read(data)
	return data
}

func longRun() bool { return os.Getenv("SECUREFILE_PAYLOADS") == "long" }

func smallPayloads() []payload {
	return []payload{
		{"NULL", nil},
		{"0 bytes", []byte{}},
		{"10 bytes", []byte{0, 255, '\'', '"', '\\', '\n', 0, 128, 'x', 0}},
		{`the text \x4142`, []byte(`\x4142`)},
		{`the text a\134b`, []byte(`a\134b`)},
		{`the text a\\b`, []byte(`a\\b`)},
		{"10 KB", random(10 * 1024)},
	}
}

func payloads() []payload {
	all := append(smallPayloads(), payload{"5 MB", random(5 << 20)})
	if longRun() {
		all = append(all, payload{"200 MB", random(200 << 20)})
	}
	return all
}

// What is moved in pieces.
func streamed() payload {
	if longRun() {
		return payload{"200 MB", random(200 << 20)}
	}
	return payload{"5 MB", random(5<<20 + 1)}
}

// For what would go on and on if it were wrong.
const patience = 30 * time.Second

// A document of 10 TB that takes no space; to read it takes hours.
const insertEndless = `INSERT INTO docs (id, document) VALUES ($1, securefile_truncate('x'::securefile, 10000000000000))`

// A file that is cut off after 3 MB and some bytes.
func cutOffFile() io.Reader {
	return io.MultiReader(bytes.NewReader(random(3<<20+7)), iotest.ErrReader(io.ErrUnexpectedEOF))
}

// A writer that fails, with io.ErrClosedPipe.
func closedPipe() io.Writer {
	reader, writer := io.Pipe()
	reader.Close()
	return writer
}

// Whether a function returns, and without an error, before patience ends.  Then its
// context is cancelled.
func soon(ctx context.Context, run func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- run(ctx) }()
	select {
	case err := <-result:
		return err
	case <-time.After(patience):
		return errors.New("it goes on and on")
	}
}

// Compares what was read with what was written, NULL and the empty value included.
func same(read, written []byte) error {
	if (read == nil) != (written == nil) {
		return fmt.Errorf("NULL is %t, should be %t", read == nil, written == nil)
	}
	if !bytes.Equal(read, written) {
		return fmt.Errorf("read %d bytes (%.40q), wrote %d bytes (%.40q)", len(read), read, len(written), written)
	}
	return nil
}

// Compares what the server says of a stored value with what was written.
func sameOnServer(serverMD5 *string, written []byte) error {
	if written == nil {
		if serverMD5 != nil {
			return fmt.Errorf("the server has a value, should be NULL")
		}
		return nil
	}
	sum := md5.Sum(written)
	if serverMD5 == nil || *serverMD5 != hex.EncodeToString(sum[:]) {
		return fmt.Errorf("the server has other bytes than were written")
	}
	return nil
}
