//! Fitting a context into a number of tokens.

/// What fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// How many of the optional parts, from the first.
    pub taken: usize,
    pub tokens: u64,
}

/// Takes optional parts, nearest first, until one does not fit: a context without holes is worth more than a full one.
/// `None` when not even what is required fits.
pub fn fit(budget: u64, required: u64, optional: &[u64]) -> Option<Fit> {
    let mut fit = Fit { taken: 0, tokens: required };
    if required > budget {
        return None;
    }
    for tokens in optional {
        match fit.tokens.checked_add(*tokens) {
            Some(sum) if sum <= budget => fit = Fit { taken: fit.taken + 1, tokens: sum },
            _ => break,
        }
    }
    Some(fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_is_in_and_the_rest_as_far_as_it_goes() {
        let fits =
            |budget, required, optional: &[u64]| fit(budget, required, optional).map(|fit| (fit.taken, fit.tokens));
        assert_eq!(fits(10, 4, &[3, 3, 1]), Some((2, 10)));
        assert_eq!(fits(10, 4, &[7, 1]), Some((0, 4)), "no hole where the first was too large");
        assert_eq!(fits(10, 11, &[]), None);
        assert_eq!(fits(0, 0, &[0, 0]), Some((2, 0)));
        assert_eq!(fits(u64::MAX, 1, &[u64::MAX]), Some((0, 1)));
    }
}
