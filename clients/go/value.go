// Package pgsecurefile reads and writes values of PostgreSQL's type securefile as streams,
// over pgx v5, in constant memory and with few round trips.
//
// A [Value] names a row and a column.  [Value.Put] and [Value.Get] move a whole value,
// [Value.Open] gives a [Reader] (io.ReadSeeker, io.ReaderAt, io.WriterTo), and
// [Value.Create] a [Writer].
//
// A [DB] is a *pgx.Conn, a *pgxpool.Pool, a *pgxpool.Conn, or a pgx.Tx.  With a pgx.Tx all
// happens in that transaction, which stays the caller's.  With the others readers and
// writers begin one of their own, which Close ends; with a pool they keep a connection
// until then.
package pgsecurefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Version is that of the extension whose functions the package calls.
const Version = "1.0.0"

const (
	pieceBytes  = 256 << 10 // of one row, or one command: two of the extension's units
	windowBytes = 4 << 20   // what is read ahead, or gathered, at most
	valueBytes  = 1 << 20   // up to here a value goes as a parameter or a result
)

// A DB begins transactions, or is one.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
	Exec(ctx context.Context, sql string, arguments ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
}

// Columns are names of columns and their values.
type Columns map[string]any

// A Value is one row's value of a column of type securefile.
type Value struct {
	Table  string  // "docs", or with its schema "archive.docs"
	Column string  // of type securefile
	Key    Columns // which row; it has to be one
	Set    Columns // other columns that are set with the value
	Schema string  // of the extension, if it is not in search_path
}

func (v Value) table() string {
	return pgx.Identifier(strings.SplitN(v.Table, ".", 2)).Sanitize()
}

func (v Value) column() string { return quoted(v.Column) }

func (v Value) function(name string) string {
	if v.Schema == "" {
		return name
	}
	return pgx.Identifier{v.Schema, name}.Sanitize()
}

func quoted(name string) string { return pgx.Identifier{name}.Sanitize() }

// A statement gathers parameters.
type statement struct{ parameters []any }

func (s *statement) parameter(value any) string {
	s.parameters = append(s.parameters, value)
	return fmt.Sprintf("$%d", len(s.parameters))
}

// assign gives "name = $1" for each column, in the order of their names, so that pgx finds
// the statement that it has prepared.
func (s *statement) assign(columns Columns) (names, places, pairs []string) {
	for name := range columns {
		names = append(names, name)
	}
	slices.Sort(names)
	for i, name := range names {
		place := s.parameter(columns[name])
		names[i] = quoted(name)
		places = append(places, place)
		pairs = append(pairs, names[i]+" = "+place)
	}
	return names, places, pairs
}

// from gives "FROM table WHERE key".
func (v Value) from(s *statement) string {
	_, _, pairs := s.assign(v.Key)
	return " FROM " + v.table() + " WHERE " + strings.Join(pairs, " AND ")
}

// store gives the statement that stores a value in the row that is there, or in a new one.  The
// subquery is an error, and no row is changed, if there are several.
func (v Value) store(s *statement, value string) string {
	setNames, setPlaces, setPairs := s.assign(v.Set)
	keyNames, keyPlaces, keyPairs := s.assign(v.Key)
	names := slices.Concat([]string{v.column()}, setNames, keyNames)
	values := slices.Concat([]string{value}, setPlaces, keyPlaces)
	setPairs = append([]string{v.column() + " = " + value}, setPairs...)
	where := " WHERE " + strings.Join(keyPairs, " AND ")
	return "WITH changed AS (UPDATE " + v.table() + " SET " + strings.Join(setPairs, ", ") + where +
		" AND (SELECT 1 FROM " + v.table() + where + ") = 1 RETURNING 1)" +
		" INSERT INTO " + v.table() + " (" + strings.Join(names, ", ") + ")" +
		" SELECT " + strings.Join(values, ", ") + " WHERE NOT EXISTS (SELECT FROM changed)"
}

// String names the value, as errors do: docs.document(name: a.bin).
func (v Value) String() string {
	names := slices.Sorted(maps.Keys(v.Key))
	for i, name := range names {
		names[i] = fmt.Sprintf("%s: %v", name, v.Key[name])
	}
	return v.Table + "." + v.Column + "(" + strings.Join(names, ", ") + ")"
}

// severalRows is the error for a key that several rows have.
func (v Value) severalRows() error { return fmt.Errorf("pgsecurefile: several rows are %v", v) }

// storeError makes one of what the server says to such a key.
func (v Value) storeError(err error) error {
	var ofServer *pgconn.PgError
	if errors.As(err, &ofServer) && ofServer.Code == "21000" {
		return errors.Join(v.severalRows(), err)
	}
	return err
}

func (v Value) check() error {
	if v.Table == "" || v.Column == "" || len(v.Key) == 0 {
		return fmt.Errorf("pgsecurefile: a Value needs Table, Column and Key")
	}
	return nil
}

// missing is the error for no row, and for NULL.
func (v Value) missing() error {
	return &fs.PathError{Op: "open", Path: v.String(), Err: fs.ErrNotExist}
}
