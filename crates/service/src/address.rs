//! The address of a provider: what it speaks, how it is shown, and that a key reaches nobody else.

use enjamb_core::provider::Dialect;
use ureq::http::{HeaderValue, Uri};

use crate::{Result, ServiceError};

#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub url: String,
    /// Without what may be secret in it.
    pub shown: String,
    pub dialect: Dialect,
    pub is_https: bool,
}

impl Address {
    pub fn parse(url: &str, dialect: Option<Dialect>, has_key: bool) -> Result<Self> {
        let shown = hidden(url);
        let invalid = |expected| ServiceError::Invalid { what: "endpoint", text: shown.clone(), expected };
        let uri: Uri = url.parse().map_err(|_| invalid("an http or https URL"))?;
        let is_https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(invalid("an http or https URL")),
        };
        let host = uri.host().ok_or_else(|| invalid("a URL with a host"))?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(invalid("a URL without a name or password: a key is given in the environment"));
        }
        if has_key && !is_https && !is_loopback(host) {
            return Err(invalid("https, so that nobody on the way reads the key"));
        }
        let told = dialect.or_else(|| Dialect::of_path(uri.path()));
        let dialect = told.ok_or_else(|| {
            invalid("a path that ends with /responses, /chat/completions or /messages, or the dialect given by itself")
        })?;
        Ok(Self { url: url.to_owned(), shown, dialect, is_https })
    }

    /// The headers of a request; `None` when the key cannot be in one.
    pub fn headers(&self, key: Option<&str>) -> Option<Vec<(&'static str, HeaderValue)>> {
        let mut headers = Vec::new();
        if self.dialect == Dialect::Messages {
            headers.push(("anthropic-version", HeaderValue::from_static("2023-06-01")));
        }
        if let Some(key) = key {
            let (name, value) = match self.dialect {
                Dialect::Messages => ("x-api-key", key.to_owned()),
                Dialect::Responses | Dialect::Chat => ("authorization", format!("Bearer {key}")),
            };
            let mut value = HeaderValue::from_str(&value).ok()?;
            value.set_sensitive(true);
            headers.push((name, value));
        }
        Some(headers)
    }
}

fn is_loopback(host: &str) -> bool {
    let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
}

/// A URL without what may be secret in it: a name and password, and what follows the path.
pub(crate) fn hidden(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(authority, path)| (authority, path));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}/{path}")
}
