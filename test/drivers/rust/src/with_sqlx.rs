use crate::payloads::{self, same, same_on_server};
use crate::{Result, Tester, CREATE_TABLE, DROP_TABLE};
use futures_util::future::try_join_all;
use futures_util::TryStreamExt;
use sqlx::postgres::{PgPool, PgPoolCopyExt, PgPoolOptions};
use sqlx::{Column, Either, Executor, QueryBuilder, Row, SqlSafeStr, Statement, TypeInfo};
use std::io::{Read, Write};

// ---- what doc/drivers.md shows ----

#[derive(sqlx::FromRow)]
struct Doc {
    id: i64,
    name: Option<String>,
    document: Option<Vec<u8>>,
}

async fn insert(db: &PgPool, doc: &Doc) -> sqlx::Result<()> {
    sqlx::query("INSERT INTO docs (id, name, document) VALUES ($1, $2, $3)")
        .bind(doc.id)
        .bind(&doc.name)
        .bind(&doc.document)
        .execute(db)
        .await?;
    Ok(())
}

async fn select(db: &PgPool, id: i64) -> sqlx::Result<Doc> {
    sqlx::query_as("SELECT id, name, document FROM docs WHERE id = $1")
        .bind(id)
        .fetch_one(db)
        .await
}

/// Stores a file of any length in pieces of 1 MB.
async fn upload(db: &PgPool, id: i64, name: &str, mut file: impl Read) -> Result<()> {
    let mut transaction = db.begin().await?;
    let handle: i32 = sqlx::query_scalar("SELECT securefile_create('docs', 'document')")
        .fetch_one(&mut *transaction)
        .await?;
    let mut piece = vec![0; 1024 * 1024];
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            break;
        }
        sqlx::query("SELECT securefile_write($1, $2)")
            .bind(handle)
            .bind(&piece[..length])
            .execute(&mut *transaction)
            .await?;
    }
    sqlx::query("INSERT INTO docs (id, name, document) VALUES ($1, $2, securefile_finish($3))")
        .bind(id)
        .bind(name)
        .bind(handle)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(())
}

/// Reads a file of any length in pieces of 256 KB.
async fn download(db: &PgPool, id: i64, mut to: impl Write) -> Result<()> {
    let mut pieces = sqlx::query("SELECT securefile_chunks(document) FROM docs WHERE id = $1")
        .bind(id)
        .fetch(db);
    while let Some(row) = pieces.try_next().await? {
        to.write_all(row.try_get(0)?)?;
    }
    Ok(())
}

// ---- tests ----

pub async fn test(t: &mut Tester) -> Result<()> {
    // no address: the environment's
    let db = PgPoolOptions::new().max_connections(4).connect("postgres://").await?;
    db.execute(CREATE_TABLE).await?;
    run_all(t, &db).await;
    db.execute(DROP_TABLE).await?;
    db.close().await;
    Ok(())
}

async fn run_all(t: &mut Tester, db: &PgPool) {
    for (id, payload) in payloads::all().into_iter().enumerate() {
        let what = format!("INSERT and SELECT, {}", payload.name);
        t.run(&what, insert_and_select(db, id as i64, payload)).await;
    }
    let (name, data) = payloads::streamed();
    t.run(&format!("pieces, {name}"), pieces(db, &data)).await;
    t.run("a statement used again", used_again(db)).await;
    t.run("not persistent", not_persistent(db)).await;
    t.run("raw_sql", raw_sql(db)).await;
    t.run("QueryBuilder", query_builder(db)).await;
    t.run("COPY", copy(db)).await;
    t.run("concurrent sessions", concurrent(db)).await;
    t.run("upsert, RETURNING", upsert(db)).await;
    t.run("WHERE document = $1", find(db)).await;
    t.run("bytea[] as a parameter and as a result", arrays(db)).await;
    t.run("types of columns and parameters", types(db)).await;
}

fn doc(id: i64, payload: payloads::Payload) -> Doc {
    Doc { id, name: Some(payload.name.into()), document: payload.data }
}

/// Reads a value back, and asks the server for its MD5.
async fn check(db: &PgPool, id: i64, written: Option<&[u8]>) -> Result<()> {
    same(select(db, id).await?.document.as_deref(), written)?;
    let md5 = sqlx::query_scalar("SELECT md5(document) FROM docs WHERE id = $1").bind(id).fetch_one(db).await?;
    same_on_server(md5, written)
}

async fn check_all(db: &PgPool, first_id: i64) -> Result<()> {
    for (id, payload) in (first_id..).zip(payloads::small()) {
        check(db, id, payload.data.as_deref()).await?;
    }
    Ok(())
}

async fn insert_and_select(db: &PgPool, id: i64, payload: payloads::Payload) -> Result<()> {
    let doc = doc(id, payload);
    insert(db, &doc).await?;
    check(db, id, doc.document.as_deref()).await
}

async fn pieces(db: &PgPool, data: &[u8]) -> Result<()> {
    upload(db, 50, "pieces", data).await?;
    let mut read = Vec::new();
    download(db, 50, &mut read).await?;
    same(Some(&read), Some(data))
}

async fn used_again(db: &PgPool) -> Result<()> {
    db.execute("INSERT INTO docs (id) VALUES (100)").await?;
    let mut connection = db.acquire().await?;
    for _ in 0..2 {
        for payload in payloads::small() {
            let returned: Option<Vec<u8>> =
                sqlx::query_scalar("UPDATE docs SET document = $1 WHERE id = 100 RETURNING document")
                    .bind(&payload.data)
                    .fetch_one(&mut *connection)
                    .await?;
            same(returned.as_deref(), payload.data.as_deref())?;
            check(db, 100, payload.data.as_deref()).await?;
        }
    }
    Ok(())
}

async fn not_persistent(db: &PgPool) -> Result<()> {
    for payload in payloads::small() {
        let returned: Option<Vec<u8>> =
            sqlx::query_scalar("UPDATE docs SET document = $1 WHERE id = 100 RETURNING document")
                .persistent(false)
                .bind(&payload.data)
                .fetch_one(db)
                .await?;
        same(returned.as_deref(), payload.data.as_deref())?;
    }
    Ok(())
}

async fn raw_sql(db: &PgPool) -> Result<()> {
    let rows = sqlx::raw_sql("SELECT document FROM docs WHERE id < 7 ORDER BY id").fetch_all(db).await?;
    for (id, payload) in payloads::small().into_iter().enumerate() {
        let read: Option<Vec<u8>> = rows[id].try_get(0)?;
        same(read.as_deref(), payload.data.as_deref())?;
    }
    Ok(())
}

async fn query_builder(db: &PgPool) -> Result<()> {
    QueryBuilder::new("INSERT INTO docs (id, document) ")
        .push_values((200i64..).zip(payloads::small()), |mut row, (id, payload)| {
            row.push_bind(id).push_bind(payload.data);
        })
        .build()
        .execute(db)
        .await?;
    check_all(db, 200).await
}

async fn copy(db: &PgPool) -> Result<()> {
    let mut sink = db.copy_in_raw("COPY docs (id, document) FROM STDIN").await?;
    for (id, payload) in (300..).zip(payloads::small()) {
        let line = format!("{id}\t{}\n", payloads::copy_text(payload.data.as_deref()));
        sink.send(line.as_bytes()).await?;
    }
    sink.finish().await?;
    check_all(db, 300).await
}

async fn concurrent(db: &PgPool) -> Result<()> {
    let docs: Vec<Doc> = (400..).zip(payloads::small()).map(|(id, payload)| doc(id, payload)).collect();
    try_join_all(docs.iter().map(|doc| insert(db, doc))).await?;
    check_all(db, 400).await
}

async fn upsert(db: &PgPool) -> Result<()> {
    for _ in 0..2 {
        for (id, payload) in (500i64..).zip(payloads::small()) {
            let returned: Option<Vec<u8>> = sqlx::query_scalar(
                "INSERT INTO docs (id, document) VALUES ($1, $2)
                 ON CONFLICT (id) DO UPDATE SET document = EXCLUDED.document RETURNING document",
            )
            .bind(id)
            .bind(&payload.data)
            .fetch_one(db)
            .await?;
            same(returned.as_deref(), payload.data.as_deref())?;
        }
    }
    check_all(db, 500).await
}

async fn find(db: &PgPool) -> Result<()> {
    for (id, payload) in (0i64..).zip(payloads::small()).skip(1) {
        let found: Option<i64> = sqlx::query_scalar("SELECT min(id) FROM docs WHERE document = $1")
            .bind(&payload.data)
            .fetch_one(db)
            .await?;
        if found != Some(id) {
            return Err(format!("{}: found row {found:?}", payload.name).into());
        }
    }
    Ok(())
}

async fn arrays(db: &PgPool) -> Result<()> {
    let documents: Vec<Option<Vec<u8>>> = payloads::small().into_iter().map(|payload| payload.data).collect();
    let ids: Vec<i64> = (600..).take(documents.len()).collect();
    sqlx::query("INSERT INTO docs (id, document) SELECT * FROM unnest($1::bigint[], $2::bytea[])")
        .bind(&ids)
        .bind(&documents)
        .execute(db)
        .await?;
    check_all(db, 600).await?;
    let read: Vec<Option<Vec<u8>>> = sqlx::query_scalar(
        "SELECT array_agg(document ORDER BY id) FROM docs
         WHERE id BETWEEN 600 AND 699 AND document = ANY ($1::bytea[])",
    )
    .bind(&documents)
    .fetch_one(db)
    .await?;
    if read != documents[1..] {
        return Err(format!("read {} other documents", read.len()).into());
    }
    Ok(())
}

async fn types(db: &PgPool) -> Result<()> {
    let statement = db.prepare("SELECT document FROM docs WHERE document = $1".into_sql_str()).await?;
    let column = statement.columns()[0].type_info().name();
    let Some(Either::Left(parameters)) = statement.parameters() else {
        return Err("the parameter has no type".into());
    };
    if (column, parameters[0].name()) != ("BYTEA", "BYTEA") {
        return Err(format!("the column has the type {column}, the parameter {}", parameters[0].name()).into());
    }
    Ok(())
}
