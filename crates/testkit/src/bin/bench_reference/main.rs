//! What `cargo xtask bench` measures our binary against, and what it feeds to both. The last line of each reference is
//! JSON with `seconds`, `n` and latencies, as `enjamb bench` prints it.

mod http;
mod large;
mod material;
mod postgres;
mod provider;
mod raw;
mod sqlite;
mod took;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What went wrong, for the chore to show.
type Problem = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "\
bench_reference append DIR N BYTES               preallocated file, write and fdatasync each
bench_reference group DIR N BYTES WRITERS        the same from many threads, one sync for all who wait
bench_reference sqlite DIR FRAMES N WRITERS      SQLite, WAL, synchronous=FULL, a connection per writer
bench_reference deltas FILE COUNT BYTES          deltas, each after its length as u32 little-endian
bench_reference transcripts DIR BYTES            sessions of JSON lines, some values repeated
bench_reference artifact FILE BYTES              one large file
bench_reference session FILE BYTES               one session of JSON lines
bench_reference line FILE BYTES                  a session of one line
bench_reference rollout FILE IMAGES BYTES TIMES  a rollout that tells its images that many times
bench_reference provider                         a provider of as many events as its model's name says
bench_reference http                             a server that answers appends and keeps nothing
bench_reference postgres                         a PostgreSQL in the current directory; says where its programs are and its address";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let answer = run(&words).and_then(|answer| Ok(writeln!(std::io::stdout(), "{answer}")?));
    match answer {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            // Nobody is left to tell if this is closed as well.
            let _ = writeln!(std::io::stderr(), "bench_reference: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Result<String, Problem> {
    match words {
        ["append", dir, n, bytes] => Ok(raw::append(&fresh(dir)?, n.parse()?, bytes.parse()?)?.into_json()),
        ["group", dir, n, bytes, writers] => {
            Ok(raw::group(&fresh(dir)?, n.parse()?, bytes.parse()?, writers.parse()?)?.into_json())
        }
        ["sqlite", dir, frames, n, writers] => {
            let deltas = material::read_deltas(Path::new(frames))?;
            Ok(sqlite::insert(&fresh(dir)?, &deltas, n.parse()?, writers.parse()?)?.into_json())
        }
        ["deltas", file, count, bytes] => material::write_deltas(Path::new(file), count.parse()?, bytes.parse()?),
        ["transcripts", dir, bytes] => material::write_transcripts(&fresh(dir)?, bytes.parse()?),
        ["session", file, bytes] => large::write_session(Path::new(file), bytes.parse()?),
        ["line", file, bytes] => large::write_line(Path::new(file), bytes.parse()?),
        ["rollout", file, images, bytes, times] => {
            large::write_rollout(Path::new(file), images.parse()?, bytes.parse()?, times.parse()?)
        }
        ["artifact", file, bytes] => material::write_artifact(Path::new(file), bytes.parse()?),
        ["provider"] => provider::serve(),
        ["http"] => http::serve(),
        ["postgres"] => postgres::serve(),
        _ => Err(USAGE.into()),
    }
}

fn fresh(dir: &str) -> Result<PathBuf, Problem> {
    std::fs::create_dir_all(dir)?;
    Ok(PathBuf::from(dir))
}
