//! What a hook does: read what the runtime says, append it to the spool, end. It opens no store, waits for nobody, and has
//! nothing to say, because some runtimes read what hooks print to the model.

use std::io::Read;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::missed::{Miss, MissedAt};
use super::record::{PAYLOAD_BYTES_MAX, Record};
use super::{spool, spool_dir};
use crate::Runtime;

/// How long is waited for a runtime to finish its sentence. The tightest of them gives a hook a second in all.
const READ_TIME_MAX: Duration = Duration::from_millis(600);
/// How much is read, and thrown away, so that no runtime meets a closed pipe; one that goes on has itself to blame.
const READ_BYTES_MAX: u64 = 64 << 20;

/// A call by a runtime.
#[derive(Debug)]
pub struct HookCall<'c> {
    /// The runtime, as the command line names it.
    pub runtime: &'c str,
    pub store: &'c Path,
    pub missed_at: &'c MissedAt,
    pub at_ms: u64,
}

/// Spools what is read. What goes wrong is noted for `status`, where that is possible.
pub fn hook(call: &HookCall<'_>, input: impl Read + AsFd) {
    let said = listen(input);
    let spooled = match Runtime::from_name(call.runtime).filter(|runtime| *runtime != Runtime::Other) {
        None => Err(Miss::UnknownRuntime),
        Some(runtime) => {
            let record = Record { at_ms: call.at_ms, runtime, said_bytes: said.bytes, payload: said.beginning };
            spool::append(&spool_dir(call.store), &record.encode())
        }
    };
    if let Err(miss) = spooled {
        call.missed_at.note(call.at_ms, miss);
    }
}

#[derive(Default)]
struct Said {
    beginning: Vec<u8>,
    bytes: u64,
}

/// Reads to the end, or until a bound is met: a pipe may stay open and silent for ever.
fn listen(mut input: impl Read + AsFd) -> Said {
    let began = Instant::now();
    let mut said = Said::default();
    let mut buffer = vec![0; PAYLOAD_BYTES_MAX];
    while said.bytes < READ_BYTES_MAX && speaks(&input, READ_TIME_MAX.saturating_sub(began.elapsed())) {
        match input.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => break,
            Ok(count) => {
                said.bytes += count as u64;
                let room = PAYLOAD_BYTES_MAX - said.beginning.len();
                said.beginning.extend_from_slice(&buffer[..count.min(room)]);
            }
        }
    }
    said
}

/// Waits until there is something to read, or the end.
fn speaks(input: &impl AsFd, wait: Duration) -> bool {
    let wait = Timespec::try_from(wait).unwrap_or_default();
    loop {
        let mut one = [PollFd::new(input, PollFlags::IN)];
        match poll(&mut one, Some(&wait)) {
            Err(Errno::INTR) => {}
            // What cannot be waited for is read as it comes.
            Err(_) => return true,
            Ok(ready) => return ready > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Write, pipe};

    use super::super::record::records;
    use super::*;

    /// Hooks once in a new store, and returns what was spooled and what was missed.
    fn hooked(runtime: &str, input: impl Read + AsFd) -> (Vec<Record>, Option<Miss>) {
        let home = tempfile::tempdir().unwrap();
        let missed_at = MissedAt::new(home.path(), vec![home.path().join("state")]);
        hook(&HookCall { runtime, store: home.path(), missed_at: &missed_at, at_ms: 3 }, input);
        let spooled = records(&spool::waiting(&spool_dir(home.path())));
        assert_eq!(spooled.damaged, 0);
        (spooled.whole, missed_at.read().last.map(|(_, miss)| miss))
    }

    /// Says something, and hangs up.
    fn said(bytes: &[u8]) -> File {
        use std::io::Seek;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn what_is_said_is_spooled_up_to_a_bound() {
        let (spooled, missed) = hooked("claude-code", said(b"{\"session_id\":\"s\"}"));
        let payload = b"{\"session_id\":\"s\"}".to_vec();
        assert_eq!(spooled, [Record { at_ms: 3, runtime: Runtime::ClaudeCode, said_bytes: 18, payload }]);
        assert_eq!(missed, None);
        let (spooled, _) = hooked("codex", said(&[b'x'; 1 << 20]));
        assert_eq!((spooled[0].payload.len(), spooled[0].said_bytes), (PAYLOAD_BYTES_MAX, 1 << 20));
        assert_eq!(hooked("codex", said(b"")).0[0].said_bytes, 0);
        assert_eq!(hooked("someone", said(b"")), (vec![], Some(Miss::UnknownRuntime)));
    }

    #[test]
    fn a_pipe_that_never_ends_or_never_speaks_is_left() {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"{\"a\"").unwrap();
        assert_eq!(hooked("codex", reader).0[0].payload, b"{\"a\"");
        drop(writer);
        let endless = hooked("codex", File::open("/dev/zero").unwrap()).0;
        assert!(endless[0].said_bytes > PAYLOAD_BYTES_MAX as u64);
    }
}
