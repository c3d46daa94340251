//! Bytes that come in pieces cut anywhere, as windows of whole lines.

/// Bytes of lines that are looked at together.
const WINDOW_BYTES: usize = 4 << 20;

/// Collects pieces. Where lines mean nothing, there is one window.
pub struct Windows {
    is_lines: bool,
    window: Vec<u8>,
}

impl Windows {
    pub fn of_lines() -> Self {
        Self { is_lines: true, window: Vec::new() }
    }

    pub fn whole() -> Self {
        Self { is_lines: false, window: Vec::new() }
    }

    /// Takes a piece, and shows a window once one is full.
    pub fn push<E>(&mut self, piece: &[u8], mut look: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.window.extend_from_slice(piece);
        if !self.is_lines || self.window.len() < WINDOW_BYTES {
            return Ok(());
        }
        // The end of a line is looked for only in what is new: a line may be longer than any window.
        let new = self.window.len() - piece.len();
        let Some(end) = piece.iter().rposition(|byte| *byte == b'\n') else { return Ok(()) };
        let end = new + end + 1;
        let looked = look(&self.window[..end]);
        self.window.drain(..end);
        looked
    }

    /// Shows what is left, if anything is.
    pub fn finish<E>(self, look: impl FnOnce(&[u8]) -> Result<(), E>) -> Result<(), E> {
        if self.window.is_empty() { Ok(()) } else { look(&self.window) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_end_where_lines_do_and_hold_every_byte() {
        let line = |length: usize| "x".repeat(length) + "\n";
        let text = [line(10), line(WINDOW_BYTES * 2), line(0), line(300), "torn".to_owned()].concat();
        for piece in [1 << 20, 1 << 22, text.len()] {
            let (mut windows, mut seen) = (Windows::of_lines(), Vec::new());
            let mut take = |window: &[u8]| {
                seen.push(window.to_vec());
                Ok::<(), ()>(())
            };
            for piece in text.as_bytes().chunks(piece) {
                windows.push(piece, &mut take).unwrap();
            }
            windows.finish(&mut take).unwrap();
            assert_eq!(seen.concat(), text.as_bytes());
            assert!(seen[..seen.len() - 1].iter().all(|window| window.ends_with(b"\n")));
        }
    }

    #[test]
    fn where_lines_mean_nothing_there_is_one_window() {
        let mut windows = Windows::whole();
        windows.push(&vec![b'\n'; WINDOW_BYTES + 1], |_| Err("too early")).unwrap();
        windows.finish(|window| if window.len() > WINDOW_BYTES { Ok(()) } else { Err("cut") }).unwrap();
    }
}
