//! What a request has to be before anything else is looked at: for this host, and not sent by somebody else's page.
//!
//! A page in a browser can send requests to this port, and by rebinding its name it can even read the answers. Its
//! requests then carry its own host, and no origin. So the host is checked first, on every path, and then the origin.

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};

use crate::problem::{Problem, Result};

/// The hosts that this server answers for.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    names: Vec<String>,
}

impl Gate {
    /// Answers for the names of this machine's loopback, and for those given besides.
    pub fn new(others: impl IntoIterator<Item = String>) -> Self {
        let local = ["localhost", "127.0.0.1", "[::1]"].into_iter().map(str::to_owned);
        Self { names: local.chain(others.into_iter().map(|name| name.to_ascii_lowercase())).collect() }
    }

    pub fn check(&self, headers: &HeaderMap) -> Result<()> {
        let mut hosts = headers.get_all(HOST).iter();
        let is_ours = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().is_ok_and(|host| self.is_ours(host)),
            _ => false,
        };
        if !is_ours {
            let title = "this server does not answer for that host";
            return Err(
                Problem::new(403, "host-not-allowed", title).help("enjamb serve --host NAME    answers for a name")
            );
        }
        self.check_origin(headers)
    }

    fn check_origin(&self, headers: &HeaderMap) -> Result<()> {
        let refused = || Problem::new(403, "origin-not-allowed", "requests from other pages are not taken");
        for origin in headers.get_all(ORIGIN) {
            let host = origin
                .to_str()
                .ok()
                .and_then(|text| text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")));
            if !host.is_some_and(|host| self.is_ours(host)) {
                return Err(refused());
            }
        }
        match headers.get("sec-fetch-site").map(|site| site.as_bytes()) {
            None | Some(b"same-origin" | b"none") => Ok(()),
            Some(_) => Err(refused()),
        }
    }

    /// Whether a host, with or without a port, is one of ours.
    fn is_ours(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            Some((_, "")) => return false,
            _ => host,
        };
        self.names.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn code(headers: &[(&'static str, &str)]) -> &'static str {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        Gate::new(["ctx.acme.dev".to_owned()]).check(&map).map_or_else(|problem| problem.code, |()| "ok")
    }

    #[test]
    fn only_our_hosts_are_answered() {
        for host in
            ["localhost", "LOCALHOST:4477", "127.0.0.1:1", "[::1]", "[::1]:4477", "ctx.acme.dev", "Ctx.Acme.Dev:443"]
        {
            assert_eq!(code(&[("host", host)]), "ok", "{host}");
        }
        for host in [
            "evil.test",
            "localhost.evil.test",
            "127.0.0.1.nip.io",
            "0.0.0.0",
            "0x7f.1",
            "127.1",
            "localhost.",
            "localhost:",
            "localhost:80:80",
            "::1",
            "[::1",
            "localhost@evil.test",
            "localhost,evil.test",
            "localhost/",
            " localhost",
            "127.0.0.1:4477x",
            "[::ffff:127.0.0.1]",
            "2130706433",
            "",
        ] {
            assert_eq!(code(&[("host", host)]), "host-not-allowed", "{host:?}");
        }
        assert_eq!(code(&[]), "host-not-allowed");
        assert_eq!(code(&[("host", "localhost"), ("host", "localhost")]), "host-not-allowed");
    }

    #[test]
    fn other_pages_are_refused() {
        let with = |name, value| code(&[("host", "localhost"), (name, value)]);
        for origin in ["http://localhost:4477", "https://ctx.acme.dev", "http://[::1]:1"] {
            assert_eq!(with("origin", origin), "ok", "{origin}");
        }
        for origin in [
            "null",
            "http://evil.test",
            "https://localhost.evil.test",
            "file://",
            "localhost",
            "http://localhost/x",
            "",
        ] {
            assert_eq!(with("origin", origin), "origin-not-allowed", "{origin:?}");
        }
        assert_eq!(with("sec-fetch-site", "same-origin"), "ok");
        assert_eq!(with("sec-fetch-site", "none"), "ok");
        assert_eq!(with("sec-fetch-site", "cross-site"), "origin-not-allowed");
        assert_eq!(with("sec-fetch-site", "same-site"), "origin-not-allowed");
    }
}
