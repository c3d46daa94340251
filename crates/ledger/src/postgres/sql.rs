//! Every statement, with the schema's name in it: nothing depends on a session's search path.

use super::segment_sql::SegmentSql;

/// `kv` holds the rows of the index: a key, and its payload with a checksum over both.
pub(super) struct Sql {
    pub(super) get: String,
    pub(super) get_many: String,
    pub(super) scan: String,
    pub(super) scan_back: String,
    pub(super) chain: String,
    pub(super) body: String,
    pub(super) bodies: String,
    pub(super) page: String,
    pub(super) sealed_range: String,
    pub(super) segments: SegmentSql,
    pub(super) position: String,
    pub(super) table_bytes: String,
    pub(super) lock: String,
    pub(super) add_group: String,
    pub(super) put_rows: String,
    pub(super) delete_rows: String,
    pub(super) find_batch: String,
    pub(super) forget_batches: String,
    pub(super) next_turn: String,
    pub(super) turns: String,
    pub(super) erase: String,
    pub(super) clear_rows: String,
    pub(super) next_epoch: String,
    pub(super) note_index_format: String,
}

/// Bytes of records that are read at once, about.
pub(super) const PAGE_BYTES: u64 = 4 << 20;

impl Sql {
    pub(super) fn new(schema: &str) -> Self {
        let s = schema;
        Self {
            get: format!("SELECT v FROM {s}.kv WHERE k = $1"),
            get_many: format!("SELECT k, v FROM {s}.kv WHERE k = ANY($1)"),
            scan: format!("SELECT k, v FROM {s}.kv WHERE k >= $1 AND k < $2 ORDER BY k LIMIT $3"),
            scan_back: format!("SELECT k, v FROM {s}.kv WHERE k >= $1 AND k < $2 ORDER BY k DESC LIMIT $3"),
            // The row of a commit ends with the id of its parent. One without a parent ends with something else that
            // is no commit's id, which is as good as none.
            chain: format!(
                "WITH RECURSIVE chain(k, v) AS (
                    SELECT k, v FROM {s}.kv WHERE k = $1
                    UNION ALL
                    SELECT up.k, up.v FROM chain JOIN {s}.kv up
                        ON up.k = '\\x43'::bytea || substring(chain.v FROM length(chain.v) - 19 FOR 16)
                ) SELECT k, v FROM chain LIMIT $2"
            ),
            body: format!("SELECT body FROM {s}.records WHERE n = $1"),
            bodies: format!("SELECT n, body FROM {s}.records WHERE n = ANY($1)"),
            page: format!(
                "SELECT n, body FROM (
                    SELECT n, body, sum(length(body)) OVER (ORDER BY n) AS bytes FROM (
                        SELECT n, body FROM {s}.records WHERE n >= $1 AND n <= $2 ORDER BY n LIMIT 1000
                    ) nearest
                ) page WHERE bytes <= {PAGE_BYTES} OR n = $1 ORDER BY n"
            ),
            sealed_range: format!(
                "SELECT first_n, last_n, segment, bytes FROM {s}.sealed WHERE first_n <= $1 ORDER BY first_n DESC LIMIT 1"
            ),
            segments: SegmentSql::new(s),
            position: format!("SELECT n FROM {s}.head WHERE one"),
            table_bytes: format!(
                "SELECT pg_total_relation_size('{s}.records') + pg_total_relation_size('{s}.sealed')
                    + pg_total_relation_size('{s}.batches'), pg_total_relation_size('{s}.kv')"
            ),
            lock: format!("SELECT n, epoch FROM {s}.head WHERE one FOR UPDATE"),
            // Every statement is answered by itself, and each answer wakes the writer.
            add_group: format!(
                "WITH added AS (
                    INSERT INTO {s}.records(n, body) SELECT * FROM unnest($1::bigint[], $2::bytea[])
                ), folded AS (
                    INSERT INTO {s}.kv(k, v) SELECT * FROM unnest($3::bytea[], $4::bytea[])
                        ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v
                ), noted AS (
                    INSERT INTO {s}.batches(id, n) VALUES ($5, $6)
                ) UPDATE {s}.head SET n = $6 WHERE one"
            ),
            put_rows: format!(
                "INSERT INTO {s}.kv(k, v) SELECT * FROM unnest($1::bytea[], $2::bytea[])
                    ON CONFLICT (k) DO UPDATE SET v = EXCLUDED.v"
            ),
            delete_rows: format!("DELETE FROM {s}.kv WHERE k = ANY($1)"),
            find_batch: format!("SELECT n FROM {s}.batches WHERE id = $1"),
            forget_batches: format!("DELETE FROM {s}.batches WHERE at < now() - interval '1 day'"),
            next_turn: format!(
                "INSERT INTO {s}.jobs(name, epoch) VALUES ($1, 1)
                    ON CONFLICT (name) DO UPDATE SET epoch = jobs.epoch + 1, at = now() RETURNING epoch"
            ),
            turns: format!("SELECT name, epoch FROM {s}.jobs WHERE name = ANY($1) FOR SHARE"),
            erase: format!(
                "UPDATE {s}.records SET body = erased.body FROM unnest($1::bigint[], $2::bytea[]) AS erased(n, body)
                    WHERE records.n = erased.n"
            ),
            clear_rows: format!("DELETE FROM {s}.kv"),
            next_epoch: format!("UPDATE {s}.head SET epoch = epoch + 1 WHERE one"),
            note_index_format: format!("UPDATE {s}.meta SET value = $1 WHERE name = 'index_format'"),
        }
    }
}
