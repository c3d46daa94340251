//! How long operations took, each and together.

use std::time::{Duration, Instant};

pub(crate) struct Took {
    whole: Duration,
    each: Vec<Duration>,
}

impl Took {
    /// Runs `operation` so many times in this thread.
    pub(crate) fn repeating<E>(n: usize, mut operation: impl FnMut(usize) -> Result<(), E>) -> Result<Self, E> {
        let mut each = Vec::with_capacity(n);
        let began = Instant::now();
        for index in 0..n {
            let started = Instant::now();
            operation(index)?;
            each.push(started.elapsed());
        }
        Ok(Self { whole: began.elapsed(), each })
    }

    /// The runs of several threads, which began and ended together.
    pub(crate) fn together(whole: Duration, runs: Vec<Self>) -> Self {
        Self { whole, each: runs.into_iter().flat_map(|run| run.each).collect() }
    }

    pub(crate) fn into_json(mut self) -> String {
        self.each.sort_unstable();
        let (seconds, n) = (self.whole.as_secs_f64(), self.each.len());
        let at = |part: f64| {
            let index = (n as f64 * part) as usize;
            self.each.get(index).map_or(0.0, |each| each.as_secs_f64() * 1e6)
        };
        format!(r#"{{"seconds":{seconds:.6},"n":{n},"p50_us":{:.1},"p99_us":{:.1}}}"#, at(0.5), at(0.99))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_ranked() {
        let each = (1..=100).rev().map(Duration::from_micros).collect();
        let took = Took { whole: Duration::from_millis(7), each };
        assert_eq!(took.into_json(), r#"{"seconds":0.007000,"n":100,"p50_us":51.0,"p99_us":100.0}"#);
    }
}
