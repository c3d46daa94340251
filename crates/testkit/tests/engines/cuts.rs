//! A connection to PostgreSQL that is cut within a write, at any byte: nothing is lost, nothing is doubled, no gaps.

use enjamb_ledger::{Batch, Ledger, NewArtifact, PostgresLedger};
use enjamb_testkit::database::{Database, Schema};
use enjamb_testkit::make::{self, stream};
use enjamb_testkit::proxy::{Proxy, Way};

use crate::store;

/// Bytes between two cuts in a normal run; `cargo xtask crash cuts` cuts at every one.
const EVERY: u64 = 11;

/// A write as services make them: bytes and the frame that names them.
fn batch(number: u64) -> Batch {
    Batch {
        artifacts: vec![NewArtifact::from_bytes(format!("content {number}").into_bytes())],
        frames: vec![make::frame(&stream("session/s"), &make::output(&format!("number {number}")))],
        ..Batch::default()
    }
}

/// A store that is reached directly and through something that cuts.
struct Bench {
    proxy: Proxy,
    /// Dropped before its schema, which waits for it.
    direct: PostgresLedger,
    far: PostgresLedger,
    schema: Schema,
    appended: u64,
}

impl Bench {
    fn new(database: &Database) -> Self {
        let schema = database.schema();
        let address = database.address();
        let port =
            address.rsplit_once(':').and_then(|(_, rest)| rest.split('/').next()).expect("a port in the address");
        let proxy = Proxy::to(port.parse().expect("a port"));
        let behind = address.replace(&format!(":{port}/"), &format!(":{}/", proxy.port()));
        let direct = schema.create();
        let far = PostgresLedger::open(&schema.address_at(&behind), &schema.options()).expect("it opens");
        Self { proxy, direct, far, schema, appended: 0 }
    }

    fn append(&mut self) -> u64 {
        let seq = self.far.append(batch(self.appended)).expect("it is stored in the end").frames[0].seq;
        assert_eq!(seq, self.appended, "of {}", self.schema.name());
        self.appended += 1;
        seq
    }

    /// Bytes of a write on a connection that has done some before.
    fn bytes_of_a_write(&mut self, way: Way) -> u64 {
        for _ in 0..3 {
            self.append();
        }
        let before = self.proxy.passed(way);
        self.append();
        self.proxy.passed(way) - before
    }

    fn cut_at(&mut self, way: Way, bytes: u64) {
        // On a connection that is known to be whole.
        self.append();
        let cuts = self.proxy.cuts();
        self.proxy.cut_after(way, bytes);
        self.append();
        let was_cut = self.proxy.cuts() > cuts;
        assert_ne!(was_cut, self.proxy.spare(), "either it was cut or there is something to take back");
        let newest = self.direct.frames(&stream("session/s"), self.appended - 2, 10).expect("frames");
        let texts: Vec<_> = newest.iter().map(|frame| String::from_utf8_lossy(&frame.json).into_owned()).collect();
        assert_eq!(texts.len(), 2, "{way:?} {bytes}: {texts:?}");
        assert!(texts[1].contains(&format!("number {}\"", self.appended - 1)), "{way:?} {bytes}: {texts:?}");
    }

    /// Everything is there once: frames without gaps, one artifact and one frame for each write.
    fn check(&self) {
        let totals = self.direct.totals().expect("totals");
        assert_eq!((totals.frames, totals.artifacts), (self.appended, self.appended));
        assert_eq!(self.direct.position().expect("a position"), self.appended * 2, "records have no gaps");
        let mut seqs = Vec::new();
        self.direct
            .each_frame(1, &mut |_, frame| {
                seqs.push(frame.seq);
                Ok(true)
            })
            .expect("the log is read");
        assert!(seqs.into_iter().eq(0..self.appended));
    }
}

fn check_cuts(way: Way) {
    let Some(database) = Database::find() else { return };
    let mut bench = Bench::new(&database);
    let bytes = bench.bytes_of_a_write(way);
    assert!(bytes > 100, "{bytes} bytes are no write");
    let every = store::setting("ENJAMB_CUT_EVERY", EVERY) as usize;
    let cuts = (0..=bytes).step_by(every).count() as u64;
    // The last byte is always among them: whatever it says, the server has done it.
    for at in (0..=bytes).rev().step_by(every) {
        bench.cut_at(way, at);
    }
    assert!(bench.proxy.cuts() + 1 >= cuts, "{} of {cuts} connections were cut", bench.proxy.cuts());
    bench.check();
}

#[test]
fn a_write_that_is_cut_on_its_way_to_the_server_is_stored_once() {
    check_cuts(Way::Up);
}

#[test]
fn a_write_whose_answer_is_cut_is_stored_once() {
    check_cuts(Way::Down);
}
