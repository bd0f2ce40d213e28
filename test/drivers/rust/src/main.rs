//! Writes and reads securefile columns with Rust's drivers.
//!
//!	drivers [stack ...]
//!
//! The server is the one that PGHOST, PGPORT, PGUSER and PGDATABASE name; the database has
//! the extension, and no table "docs".  Each stack makes that table and drops it.  Prints
//! "ok - STACK: WHAT" or "not ok - STACK: WHAT: REASON" for each test.

mod payloads;
mod with_sqlx;
mod with_tokio_postgres;

use std::error::Error;
use std::future::Future;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const CREATE_TABLE: &str = "CREATE TABLE docs (id bigint PRIMARY KEY, name text, document securefile)";
const DROP_TABLE: &str = "DROP TABLE docs";

/// Runs the tests of one stack and prints what comes of them.
struct Tester {
    stack: String,
    failed: bool,
}

impl Tester {
    async fn run(&mut self, what: &str, test: impl Future<Output = Result<()>>) {
        match test.await {
            Ok(()) => println!("ok - {}: {what}", self.stack),
            Err(error) => self.fail(what, &*error),
        }
    }

    fn fail(&mut self, what: &str, error: &dyn Error) {
        let mut reason = error.to_string();
        if let Some(source) = error.source() {
            reason = format!("{reason}: {source}");
        }
        println!("not ok - {}: {what}: {}", self.stack, reason.replace('\n', " "));
        self.failed = true;
    }
}

async fn run_stacks(stacks: &[String]) -> bool {
    let mut failed = false;
    for stack in stacks {
        let mut tester = Tester { stack: stack.clone(), failed: false };
        let result = match stack.as_str() {
            "tokio_postgres" => with_tokio_postgres::test(&mut tester).await,
            "sqlx" => with_sqlx::test(&mut tester).await,
            _ => Err("there is no such stack".into()),
        };
        if let Err(error) = result {
            tester.fail("connects and makes its table", &*error);
        }
        failed |= tester.failed;
    }
    failed
}

fn main() -> Result<()> {
    let mut stacks: Vec<String> = std::env::args().skip(1).collect();
    if stacks.is_empty() {
        stacks = vec!["tokio_postgres".into(), "sqlx".into()];
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if runtime.block_on(run_stacks(&stacks)) {
        std::process::exit(1);
    }
    Ok(())
}
