package main

import (
	"context"
	"os"

	"github.com/jackc/pgx/v5"
	"pgsecurefile"
)

func main() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, "") // the server that PGHOST and the like name
	check(err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "CREATE TABLE IF NOT EXISTS videos (name text PRIMARY KEY, document securefile)")
	check(err)

	video := pgsecurefile.Value{Table: "videos", Column: "document", Key: pgsecurefile.Columns{"name": "program"}}
	program, err := os.Open(os.Args[0])
	check(err)
	_, err = video.Put(ctx, conn, program) // any io.Reader, of any length
	check(err)
	_, err = video.Get(ctx, conn, os.Stdout) // any io.Writer
	check(err)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
