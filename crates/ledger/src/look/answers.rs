//! The questions that every engine with rows answers in the same words. What differs is how an engine looks.

/// Answers of a [`Ledger`](crate::Ledger) for which one look is enough. `few` is how the engine looks for what one look-up
/// finds, or several of which the first finds what never changes; `deep` is for what follows a chain of commits.
macro_rules! answers {
    (few: $few:ident, any: $any:ident, deep: $deep:ident) => {
        fn totals(&self) -> Result<Totals> {
            self.$few(|look| Ok(look.index.totals()?))
        }

        fn stream(&self, stream: &StreamId) -> Result<Option<StreamSummary>> {
            self.$few(|look| Ok(look.index.stream(stream)?.map(|row| look::summary(stream.clone(), &row))))
        }

        fn streams(&self, kind: Option<&str>, order: StreamOrder, limit: usize) -> Result<Vec<StreamSummary>> {
            self.$any(|look| {
                let rows = look.index.streams(kind, order, limit)?;
                Ok(rows.into_iter().map(|(stream, row)| look::summary(stream, &row)).collect())
            })
        }

        fn frames(&self, stream: &StreamId, from_seq: u64, limit: usize) -> Result<Vec<StoredFrame>> {
            self.$any(|look| look.frames(stream, from_seq, limit))
        }

        fn artifact(&self, id: &ArtifactId) -> Result<Option<ArtifactSummary>> {
            self.$few(|look| Ok(look.index.artifact(id)?.map(|row| ArtifactSummary { id: *id, len: row.len })))
        }

        fn artifacts(&self, low: &[u8], high: &[u8], limit: usize) -> Result<Vec<ArtifactSummary>> {
            self.$any(|look| {
                let rows = look.index.artifacts(low, high, limit)?;
                Ok(rows.into_iter().map(|(id, row)| ArtifactSummary { id, len: row.len }).collect())
            })
        }

        fn present(&self, commits: &[CommitId], artifacts: &[ArtifactId]) -> Result<Present> {
            self.$any(|look| {
                let commit = |id: &CommitId| Ok(look.index.mark(&Scope::Store, &MarkKey::Commit(*id))?.is_some());
                let artifact = |id: &ArtifactId| Ok(look.index.artifact(id)?.is_some());
                let commits = commits.iter().map(commit).collect::<look::Looked<_>>()?;
                Ok(Present { commits, artifacts: artifacts.iter().map(artifact).collect::<look::Looked<_>>()? })
            })
        }

        fn mark(&self, scope: &Scope, key: &MarkKey) -> Result<Option<String>> {
            self.$few(|look| Ok(look.index.mark(scope, key)?))
        }

        fn marks(&self, scope: &Scope, like: &MarkKey) -> Result<Vec<(String, String)>> {
            self.$any(|look| Ok(look.index.marks(scope, like)?))
        }

        fn marks_in(
            &self,
            scope: &Scope,
            from: &MarkKey,
            to: &MarkKey,
            walk: Walk,
            limit: usize,
        ) -> Result<Vec<(MarkKey, String)>> {
            self.$any(|look| Ok(look.index.marks_in(scope, from, to, walk, limit)?))
        }

        fn message_numbered(&self, thread: &StreamId, ordinal: u64) -> Result<Option<u64>> {
            self.$any(|look| Ok(look.index.message_numbered(thread, ordinal)?))
        }

        fn postings(&self, thread: &StreamId, word: &str, upto_seq: u64, limit: usize) -> Result<Postings> {
            self.$any(|look| Ok(look.index.postings(thread, word, upto_seq, limit)?))
        }

        fn words(&self, prefix: &str) -> Result<Vec<(String, StreamId)>> {
            self.$any(|look| Ok(look.index.words(prefix)?))
        }

        fn commit(&self, id: &CommitId) -> Result<Option<StoredCommit>> {
            self.$any(|look| look.commit(id))
        }

        fn commits(&self, low: &[u8], high: &[u8], limit: usize) -> Result<Vec<CommitId>> {
            self.$any(|look| Ok(look.index.commits(low, high, limit)?.into_iter().map(|(id, _)| id).collect()))
        }

        fn walk(&self, tip: &CommitId, stop: &Stop, limit: usize) -> Result<Option<Vec<Link>>> {
            self.$deep(|look| look.walk(tip, stop, limit))
        }

        fn parts(&self, tip: &CommitId, stop: &Stop, limit: usize) -> Result<Option<Vec<Part>>> {
            self.$deep(|look| look.parts(tip, stop, limit))
        }

        fn children(&self, id: &CommitId) -> Result<Vec<CommitId>> {
            self.$any(|look| look.children(id))
        }

        fn commit_at(&self, principal: &StreamId, at: Timestamp) -> Result<Option<CommitId>> {
            self.$any(|look| look.commit_at(principal, at))
        }

        fn timeline(&self, span: &Span, limit: usize) -> Result<Vec<CommitId>> {
            self.$any(|look| look.timeline(span, limit))
        }

        fn unsummarised(&self, after: Option<&CommitId>, limit: usize) -> Result<Vec<CommitId>> {
            self.$any(|look| look.unsummarised(after, limit))
        }
    };
}

pub(crate) use answers;
