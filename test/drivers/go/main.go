// Writes and reads securefile columns with Go's drivers.
//
//	drivers [stack ...]
//
// The server is the one that PGHOST, PGPORT, PGUSER and PGDATABASE name; the database has
// the extension, and no table "docs".  Each stack makes that table and drops it.  Prints
// "ok - STACK: WHAT" or "not ok - STACK: WHAT: REASON" for each test.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

const createTable = `CREATE TABLE docs (id bigint PRIMARY KEY, name text, document securefile)`
const dropTable = `DROP TABLE docs`

var stacks = map[string]func(*tester) error{
	"pgx":          testPgx,
	"database_sql": testDatabaseSQL,
	"lib_pq":       testLibPq,
	"gorm":         testGorm,
}

// A tester runs the tests of one stack and prints what comes of them.
type tester struct {
	ctx    context.Context
	stack  string
	failed int
}

func (t *tester) run(what string, test func() error) {
	err := test()
	if err == nil {
		fmt.Printf("ok - %s: %s\n", t.stack, what)
		return
	}
	t.failed++
	reason := strings.ReplaceAll(err.Error(), "\n", " ")
	fmt.Printf("not ok - %s: %s: %s\n", t.stack, what, reason)
}

func main() {
	names := os.Args[1:]
	if len(names) == 0 {
		names = []string{"pgx", "database_sql", "lib_pq", "gorm"}
	}
	failed := 0
	for _, name := range names {
		test, known := stacks[name]
		if !known {
			fmt.Fprintf(os.Stderr, "there is no stack %q\n", name)
			os.Exit(2)
		}
		t := &tester{ctx: context.Background(), stack: name}
		if err := test(t); err != nil {
			t.run("connects and makes its table", func() error { return err })
		}
		failed += t.failed
	}
	if failed > 0 {
		os.Exit(1)
	}
}
