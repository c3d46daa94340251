//! The laws, held against each engine.

use enjamb_ledger::{MemoryLedger, SqliteLedger, SqliteOptions};
use enjamb_testkit::database::Database;
use enjamb_testkit::laws;
use enjamb_testkit::questions::{assert_same, fingerprint};

use crate::store;

#[test]
fn the_model_obeys() {
    laws::obey(MemoryLedger::new);
}

/// Whatever a law did, the index that follows the log live is the one that is folded from the log alone.
#[test]
fn the_embedded_engine_obeys_and_its_index_can_be_lost() {
    laws::each(|law| {
        let dir = store::directory();
        let ledger = store::create(dir.path());
        law.check(&ledger);
        let live = fingerprint(&ledger);
        drop(ledger);
        let ledger = SqliteLedger::open(dir.path(), SqliteOptions::default()).unwrap();
        assert_same(&live, &fingerprint(&ledger));
        drop(ledger);
        store::delete_index(dir.path());
        let ledger = SqliteLedger::open(dir.path(), SqliteOptions::default()).unwrap();
        assert_same(&live, &fingerprint(&ledger));
    });
}

/// Likewise, and another node sees the same.
#[test]
fn the_engine_for_teams_obeys_and_its_index_can_be_lost() {
    let Some(database) = Database::find() else { return };
    laws::each(|law| {
        let schema = database.schema();
        let ledger = schema.create();
        law.check(&ledger);
        let live = fingerprint(&ledger);
        assert_same(&live, &fingerprint(&schema.open()));
        ledger.rebuild_index().unwrap();
        assert_same(&live, &fingerprint(&ledger));
    });
}
