package pgsecurefile

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// peak is the most memory, in kB, that the program has had.
func peak(t *testing.T) (kB int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	ok(t, err)
	_, after, found := strings.Cut(string(status), "VmHWM:")
	if !found {
		t.Skip("this system does not say how much memory a program has had")
	}
	_, err = fmt.Sscan(after, &kB)
	ok(t, err)
	return kB
}

// A counter gives bytes that follow from their place, and checks them.
type counter struct{ at int64 }

func (c *counter) byteAt(at int64) byte { return byte(at ^ at>>8 ^ at>>16 ^ at>>24) }

func (c *counter) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = c.byteAt(c.at + int64(i))
	}
	c.at += int64(len(p))
	return len(p), nil
}

func (c *counter) Write(p []byte) (int, error) {
	for i := range p {
		if p[i] != c.byteAt(c.at+int64(i)) {
			return i, fmt.Errorf("byte %d is wrong", c.at+int64(i))
		}
	}
	c.at += int64(len(p))
	return len(p), nil
}

func TestTwoGigabytesInConstantMemory(t *testing.T) {
	if os.Getenv("SECUREFILE_PAYLOADS") != "long" {
		t.Skip("a part of make check-long")
	}
	ctx, conn := connect(t)
	const length = 2<<30 + 5
	put(t, conn, "warm", random(9<<20))
	before := peak(t)
	_, err := doc("a").Put(ctx, conn, io.LimitReader(&counter{}, length))
	ok(t, err)
	read := &counter{}
	n, err := doc("a").Get(ctx, conn, read)
	ok(t, err)
	if n != length || read.at != length {
		t.Fatalf("read %d bytes", n)
	}
	if more := peak(t) - before; more > 64<<10 {
		t.Fatalf("2 GB took %d kB more memory", more)
	}
}
