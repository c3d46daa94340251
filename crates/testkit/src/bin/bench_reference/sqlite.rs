//! What a program gets that writes the same bytes into a table of its own: one row and one commit each.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::Problem;
use crate::took::Took;

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS c(id INTEGER PRIMARY KEY, ctx TEXT, chain TEXT, seq INT, parent INT, principal TEXT,
                                 ts REAL, meta TEXT, delta BLOB);
    CREATE INDEX IF NOT EXISTS ci ON c(chain, seq);
    CREATE INDEX IF NOT EXISTS cp ON c(principal, ts);
";
const INSERT: &str =
    "INSERT INTO c(ctx, chain, seq, parent, principal, ts, meta, delta) VALUES(?, ?, ?, ?, ?, ?, ?, ?)";

/// Many connections wait for each other with growing naps, so each writes only a few rows.
const ROWS_PER_WRITER_MAX: usize = 20;

pub(crate) fn insert(dir: &Path, deltas: &[Vec<u8>], n: usize, writers: usize) -> Result<Took, Problem> {
    let first = open(dir)?;
    if writers == 1 {
        return chain(&first, deltas, n, 0);
    }
    drop(first);
    let each = (n / writers).min(ROWS_PER_WRITER_MAX);
    let began = Instant::now();
    let runs = thread::scope(|scope| {
        let write = |writer| chain(&open(dir)?, deltas, each, writer);
        let threads: Vec<_> = (0..writers).map(|writer| scope.spawn(move || write(writer))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a writer died")?).collect()
    });
    let runs: Result<Vec<Took>, Problem> = runs;
    Ok(Took::together(began.elapsed(), runs?))
}

fn open(dir: &Path) -> Result<Connection, Problem> {
    let connection = Connection::open(dir.join("s.db"))?;
    connection.busy_timeout(Duration::from_secs(60))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -65536)?;
    connection.pragma_update(None, "mmap_size", 1 << 30)?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

fn chain(connection: &Connection, deltas: &[Vec<u8>], n: usize, writer: usize) -> Result<Took, Problem> {
    let mut statement = connection.prepare(INSERT)?;
    let (chain, principal) = (format!("m{writer}"), format!("agent/{writer}"));
    let summary = "x".repeat(60);
    let meta = format!(
        r#"{{"template":"reviewer","machine":"m1","session":"s","checkpoint":"turn_boundary","summary":"{summary}"}}"#
    );
    let began = Instant::now();
    let mut parent = None;
    Took::repeating(n, |index| {
        let ctx = format!("ctx-{writer:x}-{index:x}");
        let at = began.elapsed().as_secs_f64();
        let delta = &deltas[index % deltas.len()];
        statement.execute(params![ctx, chain, index as i64, parent, principal, at, meta, delta])?;
        parent = Some(connection.last_insert_rowid());
        Ok(())
    })
}
