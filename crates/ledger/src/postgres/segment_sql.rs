//! Statements about segments: ranges of records that are in them, and which of them there are.

/// `sealed` has the ranges, `segments` what is known of each segment upstream.
pub(super) struct SegmentSql {
    pub(super) sealed: String,
    pub(super) hot_bytes: String,
    pub(super) add_sealed: String,
    pub(super) drop_sealed: String,
    pub(super) drop_records: String,
    pub(super) named_since: String,
    pub(super) announce: String,
    pub(super) confirm: String,
    pub(super) about: String,
    pub(super) stored: String,
    pub(super) is_nameable: String,
    pub(super) all_segments: String,
    pub(super) doom: String,
    pub(super) doomed: String,
    pub(super) forget_doomed: String,
    pub(super) bind_objects: String,
}

/// How long a segment that nothing names stays: whoever reads may have learnt of it a while ago.
const GRACE: &str = "1 day";

impl SegmentSql {
    pub(super) fn new(schema: &str) -> Self {
        let s = schema;
        Self {
            sealed: format!("SELECT first_n, last_n, segment, bytes FROM {s}.sealed ORDER BY first_n"),
            hot_bytes: format!(
                "SELECT max(n), sum(bytes)::bigint FROM (
                    SELECT n, bytes, sum(bytes) OVER (ORDER BY n) AS upto FROM (
                        SELECT n, length(body) AS bytes FROM {s}.records WHERE n >= $1 ORDER BY n LIMIT 1000000
                    ) hot
                ) range WHERE upto <= $2 OR n = $1"
            ),
            add_sealed: format!("INSERT INTO {s}.sealed(first_n, last_n, segment, bytes) VALUES ($1, $2, $3, $4)"),
            drop_sealed: format!(
                "DELETE FROM {s}.sealed WHERE first_n <= $2 AND last_n >= $1 RETURNING first_n, last_n, segment, bytes"
            ),
            // What a range holds is not needed as rows, and in which order they go is nobody's concern.
            drop_records: format!(
                "DELETE FROM {s}.records WHERE n IN (
                    SELECT n FROM {s}.records WHERE n <= (SELECT max(last_n) FROM {s}.sealed) ORDER BY n LIMIT 5000
                )"
            ),
            named_since: format!(
                "SELECT n, body FROM {s}.records WHERE n > $1 AND length(body) > 0 AND get_byte(body, 0) = 3 ORDER BY n"
            ),
            announce: format!(
                "INSERT INTO {s}.segments(segment, bytes, trailer, deps) VALUES ($1, $2, $3, $4)
                    ON CONFLICT (segment) DO UPDATE SET at = now(), doomed = NULL"
            ),
            confirm: format!("UPDATE {s}.segments SET stored = true WHERE segment = $1"),
            about: format!("SELECT bytes, trailer, deps FROM {s}.segments WHERE segment = $1 AND stored"),
            stored: format!("SELECT segment FROM {s}.segments WHERE segment = ANY($1) AND stored AND doomed IS NULL"),
            is_nameable: format!(
                "SELECT segment FROM {s}.segments WHERE segment = ANY($1) AND stored AND doomed IS NULL
                    AND at > now() - interval '12 hours'"
            ),
            all_segments: format!(
                "SELECT segment, bytes, deps, at < now() - interval '{GRACE}', at FROM {s}.segments ORDER BY segment"
            ),
            doom: format!("UPDATE {s}.segments SET doomed = now() WHERE segment = ANY($1) AND doomed IS NULL"),
            doomed: format!("SELECT segment, bytes FROM {s}.segments WHERE doomed < now() - interval '{GRACE}'"),
            forget_doomed: format!(
                "DELETE FROM {s}.segments WHERE segment = $1 AND doomed < now() - interval '{GRACE}'"
            ),
            bind_objects: format!(
                "INSERT INTO {s}.meta(name, value) VALUES ('objects', $1) ON CONFLICT (name) DO NOTHING"
            ),
        }
    }
}
