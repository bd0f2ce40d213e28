use crate::payloads::{self, same, same_on_server};
use crate::{Result, Tester, CREATE_TABLE, DROP_TABLE};
use futures_util::future::try_join_all;
use futures_util::{pin_mut, SinkExt, TryStreamExt};
use std::io::{Read, Write};
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};

// ---- what doc/drivers.md shows ----

async fn insert(db: &Client, id: i64, name: &str, document: Option<&[u8]>) -> std::result::Result<(), Error> {
    db.execute(
        "INSERT INTO docs (id, name, document) VALUES ($1, $2, $3)",
        &[&id, &name, &document],
    )
    .await?;
    Ok(())
}

async fn select(db: &Client, id: i64) -> std::result::Result<Option<Vec<u8>>, Error> {
    db.query_one("SELECT document FROM docs WHERE id = $1", &[&id])
        .await?
        .try_get(0)
}

/// Stores a file of any length in pieces of 1 MB.
async fn upload(db: &mut Client, id: i64, name: &str, mut file: impl Read) -> Result<()> {
    let transaction = db.transaction().await?;
    let create = "SELECT securefile_create('docs', 'document')";
    let handle: i32 = transaction.query_one(create, &[]).await?.get(0);
    let write = transaction.prepare("SELECT securefile_write($1, $2)").await?;
    let mut piece = vec![0; 1024 * 1024];
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            break;
        }
        transaction.query_one(&write, &[&handle, &&piece[..length]]).await?;
    }
    transaction
        .execute(
            "INSERT INTO docs (id, name, document) VALUES ($1, $2, securefile_finish($3))",
            &[&id, &name, &handle],
        )
        .await?;
    transaction.commit().await?;
    Ok(())
}

/// Reads a file of any length in pieces of 256 KB.
async fn download(db: &Client, id: i64, mut to: impl Write) -> Result<()> {
    let pieces = db
        .query_raw("SELECT securefile_chunks(document) FROM docs WHERE id = $1", [id])
        .await?;
    pin_mut!(pieces);
    while let Some(row) = pieces.try_next().await? {
        to.write_all(row.try_get(0)?)?;
    }
    Ok(())
}

// ---- tests ----

pub async fn test(t: &mut Tester) -> Result<()> {
    let mut config = Config::new();
    config
        .host(std::env::var("PGHOST")?)
        .port(std::env::var("PGPORT")?.parse()?)
        .user(std::env::var("PGUSER")?)
        .dbname(std::env::var("PGDATABASE")?);
    let (mut db, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    db.batch_execute(CREATE_TABLE).await?;
    run_all(t, &mut db).await;
    db.batch_execute(DROP_TABLE).await?;
    Ok(())
}

async fn run_all(t: &mut Tester, db: &mut Client) {
    for (id, payload) in payloads::all().iter().enumerate() {
        let what = format!("INSERT and SELECT, {}", payload.name);
        t.run(&what, insert_and_select(db, id as i64, payload)).await;
    }
    let (name, data) = payloads::streamed();
    t.run(&format!("pieces, {name}"), pieces(db, &data)).await;
    t.run("prepared statement used again", prepared(db)).await;
    t.run("query_typed", typed(db)).await;
    t.run("pipeline", pipeline(db)).await;
    t.run("simple_query", simple_query(db)).await;
    t.run("COPY in binary", copy(db)).await;
    t.run("COPY in text", copy_text(db)).await;
    t.run("portal", portal(db)).await;
    t.run("upsert, RETURNING", upsert(db)).await;
    t.run("WHERE document = $1", find(db)).await;
    t.run("bytea[] as a parameter and as a result", arrays(db)).await;
    t.run("types of columns and parameters", types(db)).await;
}

/// Reads a value back, and asks the server for its MD5.
async fn check(db: &Client, id: i64, written: Option<&[u8]>) -> Result<()> {
    same(select(db, id).await?.as_deref(), written)?;
    let row = db.query_one("SELECT md5(document) FROM docs WHERE id = $1", &[&id]).await?;
    same_on_server(row.get(0), written)
}

async fn check_all(db: &Client, first_id: i64) -> Result<()> {
    for (id, payload) in (first_id..).zip(payloads::small()) {
        check(db, id, payload.data.as_deref()).await?;
    }
    Ok(())
}

async fn insert_and_select(db: &Client, id: i64, payload: &payloads::Payload) -> Result<()> {
    insert(db, id, payload.name, payload.data.as_deref()).await?;
    check(db, id, payload.data.as_deref()).await
}

async fn pieces(db: &mut Client, data: &[u8]) -> Result<()> {
    upload(db, 50, "pieces", data).await?;
    let mut read = Vec::new();
    download(db, 50, &mut read).await?;
    same(Some(&read), Some(data))
}

async fn prepared(db: &Client) -> Result<()> {
    db.execute("INSERT INTO docs (id) VALUES (100)", &[]).await?;
    let update = db.prepare("UPDATE docs SET document = $1 WHERE id = 100 RETURNING document").await?;
    for _ in 0..2 {
        for payload in payloads::small() {
            let row = db.query_one(&update, &[&payload.data]).await?;
            same(row.try_get(0)?, payload.data.as_deref())?;
            check(db, 100, payload.data.as_deref()).await?;
        }
    }
    Ok(())
}

async fn typed(db: &Client) -> Result<()> {
    for payload in payloads::small() {
        let rows = db
            .query_typed(
                "UPDATE docs SET document = $1 WHERE id = 100 RETURNING document",
                &[(&payload.data, Type::BYTEA)],
            )
            .await?;
        same(rows[0].try_get(0)?, payload.data.as_deref())?;
    }
    Ok(())
}

async fn pipeline(db: &Client) -> Result<()> {
    let all = payloads::small();
    let inserts = (200..).zip(&all).map(|(id, payload)| insert(db, id, payload.name, payload.data.as_deref()));
    try_join_all(inserts).await?;
    check_all(db, 200).await
}

async fn simple_query(db: &Client) -> Result<()> {
    let all = payloads::small();
    let mut rows = all.iter();
    for message in db.simple_query("SELECT document FROM docs WHERE id < 7 ORDER BY id").await? {
        if let SimpleQueryMessage::Row(row) = message {
            let written = rows.next().and_then(|payload| payload.data.as_deref());
            let text = written.map(|data| payloads::copy_text(Some(data))[1..].to_string());
            same(row.get(0).map(str::as_bytes), text.as_deref().map(str::as_bytes))?;
        }
    }
    match rows.next() {
        None => Ok(()),
        Some(payload) => Err(format!("no row for {}", payload.name).into()),
    }
}

async fn copy(db: &Client) -> Result<()> {
    let types = [Type::INT8, Type::BYTEA];
    let sink = db.copy_in("COPY docs (id, document) FROM STDIN (FORMAT binary)").await?;
    let writer = BinaryCopyInWriter::new(sink, &types);
    pin_mut!(writer);
    for (id, payload) in (300i64..).zip(payloads::small()) {
        writer.as_mut().write(&[&id, &payload.data]).await?;
    }
    writer.finish().await?;
    check_all(db, 300).await?;

    let stream = db
        .copy_out("COPY (SELECT id, document FROM docs WHERE id BETWEEN 300 AND 399 ORDER BY id) TO STDOUT (FORMAT binary)")
        .await?;
    let rows: Vec<_> = BinaryCopyOutStream::new(stream, &types).try_collect().await?;
    for (row, payload) in rows.iter().zip(payloads::small()) {
        same(row.try_get(1)?, payload.data.as_deref())?;
    }
    Ok(())
}

async fn copy_text(db: &Client) -> Result<()> {
    let sink = db.copy_in("COPY docs (id, document) FROM STDIN").await?;
    pin_mut!(sink);
    for (id, payload) in (400..).zip(payloads::small()) {
        let line = format!("{id}\t{}\n", payloads::copy_text(payload.data.as_deref()));
        sink.send(bytes::Bytes::from(line)).await?;
    }
    sink.finish().await?;
    check_all(db, 400).await
}

async fn portal(db: &mut Client) -> Result<()> {
    let transaction = db.transaction().await?;
    let portal = transaction.bind("SELECT document FROM docs WHERE id < 7 ORDER BY id", &[]).await?;
    for payload in payloads::small() {
        let rows = transaction.query_portal(&portal, 1).await?;
        same(rows[0].try_get(0)?, payload.data.as_deref())?;
    }
    Ok(transaction.commit().await?)
}

async fn upsert(db: &Client) -> Result<()> {
    for _ in 0..2 {
        for (id, payload) in (500i64..).zip(payloads::small()) {
            let row = db
                .query_one(
                    "INSERT INTO docs (id, document) VALUES ($1, $2)
                     ON CONFLICT (id) DO UPDATE SET document = EXCLUDED.document RETURNING document",
                    &[&id, &payload.data],
                )
                .await?;
            same(row.try_get(0)?, payload.data.as_deref())?;
        }
    }
    check_all(db, 500).await
}

async fn find(db: &Client) -> Result<()> {
    for (id, payload) in (0i64..).zip(payloads::small()).skip(1) {
        let row = db.query_one("SELECT min(id) FROM docs WHERE document = $1", &[&payload.data]).await?;
        let found: Option<i64> = row.get(0);
        if found != Some(id) {
            return Err(format!("{}: found row {found:?}", payload.name).into());
        }
    }
    Ok(())
}

async fn arrays(db: &Client) -> Result<()> {
    let documents: Vec<Option<Vec<u8>>> = payloads::small().into_iter().map(|payload| payload.data).collect();
    let ids: Vec<i64> = (600..).take(documents.len()).collect();
    db.execute(
        "INSERT INTO docs (id, document) SELECT * FROM unnest($1::bigint[], $2::bytea[])",
        &[&ids, &documents],
    )
    .await?;
    check_all(db, 600).await?;
    let row = db
        .query_one(
            "SELECT array_agg(document ORDER BY id) FROM docs WHERE id BETWEEN 600 AND 699 AND document = ANY ($1)",
            &[&documents],
        )
        .await?;
    let read: Vec<Option<Vec<u8>>> = row.try_get(0)?;
    if read != documents[1..] {
        return Err(format!("read {} other documents", read.len()).into());
    }
    Ok(())
}

async fn types(db: &Client) -> Result<()> {
    let statement = db.prepare("SELECT document FROM docs WHERE document = $1").await?;
    let (column, parameter) = (statement.columns()[0].type_(), &statement.params()[0]);
    if (column, parameter) != (&Type::BYTEA, &Type::BYTEA) {
        return Err(format!("the column has the type {column}, the parameter {parameter}").into());
    }
    Ok(())
}
