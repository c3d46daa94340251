//! `cargo xtask ci`: the checks, then the tests.

use crate::{Problem, check, test};

pub(crate) fn run(arguments: &[String]) -> Result<(), Problem> {
    check::run(arguments)?;
    test::run(&[])
}
