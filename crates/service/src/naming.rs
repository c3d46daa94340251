//! Names that move only from where they are: tags of artifacts and refs of commits.

use std::fmt::Display;

use enjamb_core::order::Rule;
use enjamb_ledger::LedgerError;

use crate::{Result, ServiceError};

/// What a name must stand for to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect<T> {
    /// Whatever it stands for now.
    Anything,
    /// Nothing: the name is new.
    Nothing,
    Exactly(T),
}

impl<T: Copy + PartialEq + Display> Expect<T> {
    /// Fails unless `current` is what is expected.
    pub(crate) fn check(self, what: &'static str, name: &str, current: Option<T>) -> Result<()> {
        let expected = match self {
            Self::Anything => return Ok(()),
            Self::Nothing => None,
            Self::Exactly(it) => Some(it),
        };
        if current == expected {
            return Ok(());
        }
        let show = |it: Option<T>| it.map_or_else(|| "nothing".to_owned(), |it| it.to_string());
        let (expected, actual) = (show(expected), show(current));
        Err(ServiceError::NameMoved { what, name: name.to_owned(), expected, actual })
    }
}

/// A name that is about to be moved.
pub(crate) struct Move<'m, T> {
    /// What kind of name: a tag or a ref.
    pub what: &'static str,
    pub name: &'m str,
    /// Where to; `None` takes it away.
    pub to: Option<T>,
    pub expect: Expect<T>,
}

impl<T: Copy + PartialEq + Display> Move<'_, T> {
    /// Moves the name from where `current` finds it, with `write`, and returns where it was. When somebody else moves it
    /// in between, whether that is a conflict depends on what was expected, so it is looked at again.
    pub(crate) fn make(
        self,
        current: impl Fn() -> Result<Option<T>>,
        write: impl Fn(Option<T>) -> Result<()>,
    ) -> Result<Option<T>> {
        loop {
            let from = current()?;
            self.expect.check(self.what, self.name, from)?;
            if self.to.is_none() && from.is_none() {
                return Err(ServiceError::Unknown { what: self.what, name: self.name.to_owned() });
            }
            match write(from) {
                Err(ServiceError::Ledger(LedgerError::Refused(refusal)))
                    if matches!(refusal.rule, Rule::TagMoved | Rule::RefMoved) => {}
                written => return written.map(|()| from),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use enjamb_core::{Refusal, StreamId};

    use super::*;

    fn moved() -> ServiceError {
        let (rule, stream, frame_type) = (Rule::RefMoved, StreamId::artifacts(), String::new());
        let refusal = Refusal { rule, stream, seq: 0, frame_type, detail: String::new() };
        ServiceError::Ledger(LedgerError::Refused(Box::new(refusal)))
    }

    /// Moves a name that stands for 1, and for 2 after a rival came first. Returns the answer and what it stands for then.
    fn rivalled(expect: Expect<u8>) -> (Result<Option<u8>>, Option<u8>) {
        let stands_for = Cell::new(Some(1));
        let rival = Cell::new(true);
        let answer = Move { what: "ref", name: "n", to: Some(3), expect }.make(
            || Ok(stands_for.get()),
            |_| {
                if rival.take() {
                    stands_for.set(Some(2));
                    return Err(moved());
                }
                stands_for.set(Some(3));
                Ok(())
            },
        );
        (answer, stands_for.get())
    }

    #[test]
    fn a_rival_is_a_conflict_only_for_who_expected_something() {
        let (answer, then) = rivalled(Expect::Anything);
        assert_eq!((answer.unwrap(), then), (Some(2), Some(3)));
        let (answer, then) = rivalled(Expect::Exactly(1));
        assert_eq!(answer.unwrap_err().to_string(), "ref n names 2, not 1");
        assert_eq!(then, Some(2));
    }
}
