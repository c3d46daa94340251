//! `[provider]`: whom a run asks, and within which bounds.

use std::ffi::OsString;
use std::time::Duration;

use super::key::{Key, Kind};
use super::{Config, ConfigError};
use crate::{Dialect, Key as Secret, Prices, ProviderOptions, Result, ServiceError};

const COUNT: Kind = Kind::Count { min: 1, max: 1_000_000_000_000 };
const SECONDS: Kind = Kind::Count { min: 1, max: 86_400 };
/// Where a key is looked for when nobody says.
const KEY_VARIABLE: &str = "ENJAMB_ENDPOINT_KEY";
/// No key is longer.
const KEY_BYTES_MAX: usize = 16 << 10;

pub(super) const KEYS: &[Key] = &[
    Key::new("provider.endpoint", Kind::Text).env("ENJAMB_ENDPOINT").needs_trust(),
    Key::new("provider.model", Kind::Text).env("ENJAMB_MODEL"),
    Key::new("provider.api", Kind::OneOf(&["responses", "chat", "messages"])).env("ENJAMB_API"),
    Key::new("provider.key_env", Kind::Text).needs_trust(),
    Key::new("provider.key_file", Kind::Text).needs_trust(),
    Key::new("provider.budget_tokens", COUNT).env("ENJAMB_BUDGET_TOKENS").needs_trust(),
    Key::new("provider.max_output_tokens", COUNT),
    Key::new("provider.idle_seconds", SECONDS),
    Key::new("provider.answer_seconds", SECONDS),
    Key::new("provider.retries", Kind::Count { min: 0, max: 10 }),
    Key::new("provider.price_read", Kind::Text),
    Key::new("provider.price_written", Kind::Text),
    Key::new("provider.cursor", Kind::OneOf(&["use", "ignore"])),
];

impl Config {
    /// Whom to ask. What a repository says of it holds only where somebody said to trust it.
    pub fn provider(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<ProviderOptions> {
        let url = self.text("provider.endpoint").ok_or(ServiceError::NoProvider)?;
        let budget = self.count("provider.budget_tokens").ok_or(ServiceError::NoBudget)?;
        let usual = ProviderOptions::new(url, budget);
        let seconds = |key, usual| self.count(key).map_or(usual, Duration::from_secs);
        Ok(ProviderOptions {
            dialect: self.text("provider.api").and_then(Dialect::from_name),
            model: self.text("provider.model").map(str::to_owned),
            key: self.provider_key(variable)?,
            output_tokens_max: self.count("provider.max_output_tokens"),
            idle_timeout: seconds("provider.idle_seconds", usual.idle_timeout),
            timeout: seconds("provider.answer_seconds", usual.timeout),
            retries: self.count("provider.retries").map_or(usual.retries, |retries| retries as u32),
            prices: self.prices()?,
            use_cursor: self.text("provider.cursor") == Some("use"),
            ..usual
        })
    }

    /// The variables that hold keys: nobody else is to be given them.
    pub fn key_variables(&self) -> Vec<String> {
        let named = self.text("provider.key_env");
        [KEY_VARIABLE].into_iter().chain(named).map(str::to_owned).collect()
    }

    /// From the variable that is named, else from the file that is.
    fn provider_key(&self, variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Option<Secret>> {
        let named = variable(self.text("provider.key_env").unwrap_or(KEY_VARIABLE)).filter(|key| !key.is_empty());
        let text = match (named, self.text("provider.key_file")) {
            (Some(key), _) => key.into_string().map_err(|_| bad_key("text"))?,
            (None, Some(path)) => {
                let read = std::fs::read_to_string(path);
                read.map_err(|source| ServiceError::File { path: path.into(), source })?
            }
            (None, None) => return Ok(None),
        };
        let key = text.trim();
        match key.len() {
            1..=KEY_BYTES_MAX => Ok(Some(Secret::new(key.to_owned()))),
            _ => Err(bad_key("a key")),
        }
    }

    fn prices(&self) -> Result<Option<Prices>> {
        let price = |key: &'static str| {
            let bad = |_: &str| ConfigError::BadText {
                name: key.to_owned(),
                key: key.to_owned(),
                expected: "a number of dollars per million tokens, such as \"0.25\"".into(),
            };
            self.text(key).map(|text| Prices::parse(text).ok_or_else(|| bad(text))).transpose()
        };
        let (input, output) = (price("provider.price_read")?, price("provider.price_written")?);
        Ok(input.or(output).map(|_| Prices { input: input.unwrap_or(0), output: output.unwrap_or(0) }))
    }
}

fn bad_key(expected: &'static str) -> ServiceError {
    ServiceError::Invalid { what: "key", text: "(not shown)".into(), expected }
}
