package pgsecurefile

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// How long the end of a transaction may take when its context is over.
const endTime = 10 * time.Second

// A transaction is the caller's, or one that the reader or writer has begun.
type transaction struct {
	ctx context.Context
	tx  pgx.Tx
	own bool
}

func begin(ctx context.Context, db DB) (transaction, error) {
	if tx, given := db.(pgx.Tx); given {
		return transaction{ctx, tx, false}, nil
	}
	if inTransaction(db) {
		return transaction{}, errors.New("pgsecurefile: the connection is in a transaction: pass its pgx.Tx")
	}
	tx, err := db.Begin(ctx)
	return transaction{ctx, tx, true}, err
}

// inTransaction tells whether a connection is in a transaction that is not in our hands: the
// end of our own would end that one.
func inTransaction(db DB) bool {
	conn, is := db.(*pgx.Conn)
	if ofPool, has := db.(*pgxpool.Conn); has {
		conn, is = ofPool.Conn(), true
	}
	return is && !conn.IsClosed() && conn.PgConn().TxStatus() != 'I'
}

func (t transaction) conn() *pgconn.PgConn { return t.tx.Conn().PgConn() }

// usable tells whether the transaction takes statements.
func (t transaction) usable() bool {
	return t.tx.Conn() != nil && !t.conn().IsClosed() && t.conn().TxStatus() == 'T'
}

// commit ends a transaction whose context may be over.
func (t transaction) commit() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), endTime)
	defer cancel()
	return t.tx.Commit(ctx)
}

// giveUp rolls back what is the reader's or writer's own; in the caller's transaction it
// closes the handle.
func (t transaction) giveUp(v Value, handle int32) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), endTime)
	defer cancel()
	if t.own {
		if err := t.tx.Rollback(ctx); err != nil && !t.tx.Conn().IsClosed() {
			return err
		}
		return nil
	}
	if !t.usable() {
		return nil
	}
	_, err := t.tx.Exec(ctx, "SELECT "+v.function("securefile_close")+"($1)", handle)
	return err
}

// ---- parameters in binary form ----

var (
	readTypes  = []uint32{pgtype.Int4OID, pgtype.Int8OID, pgtype.Int8OID, pgtype.Int8OID}
	writeTypes = []uint32{pgtype.Int4OID, pgtype.ByteaOID}
	binaryForm = []int16{1}
)

func int4(value int32) []byte { return binary.BigEndian.AppendUint32(nil, uint32(value)) }

func int8(value int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(value)) }
