//! What an endpoint may be, what of it is shown, and what the budget covers. Asking is told in the stories of the command.

use super::*;

fn options(url: &str, key: Option<&str>, budget_tokens: u64) -> EndpointOptions {
    EndpointOptions {
        url: url.into(),
        dialect: None,
        model: "m".into(),
        key: key.map(|key| Key::new(key.into())),
        budget_tokens,
        timeout: Duration::from_secs(1),
    }
}

#[test]
fn an_endpoint_is_a_url_that_keeps_the_key() {
    let made = |url, key| Endpoint::new(options(url, key, 1)).map(|endpoint| endpoint.address.dialect);
    assert_eq!(made("https://a.example/v1/messages", Some("k")).unwrap(), Dialect::Messages);
    assert_eq!(made("http://127.0.0.1:8080/v1/chat/completions", Some("k")).unwrap(), Dialect::Chat);
    assert_eq!(made("http://[::1]:80/v1/responses", Some("k")).unwrap(), Dialect::Responses);
    assert_eq!(made("http://a.example/v1/responses", None).unwrap(), Dialect::Responses);
    for (url, key, says) in [
        ("http://a.example/v1/messages", Some("k"), "https, so that nobody"),
        ("https://me:secret@a.example/v1/messages", None, "without a name or password"),
        ("https://a.example/v1", None, "/chat/completions"),
        ("ftp://a.example/messages", None, "an http or https URL"),
        ("a.example/messages", None, "an http or https URL"),
    ] {
        let error = made(url, key).unwrap_err().to_string();
        assert!(error.contains(says) && !error.contains("secret"), "{url}: {error}");
    }
}

#[test]
fn nothing_secret_is_shown() {
    assert_eq!(crate::address::hidden("https://me:secret@a.example/v1/x?key=secret#secret"), "https://a.example/v1/x");
    let options = options("https://a.example/v1/messages", Some("sk-secret"), 1);
    assert!(!format!("{options:?}").contains("sk-secret"));
    let endpoint = Endpoint::new(options).unwrap();
    assert_eq!(format!("{endpoint:?}"), "Endpoint(https://a.example/v1/messages, m)");
    let error = endpoint.failed(ErrorKind::Denied, "bad key sk-secret").to_string();
    assert!(error.contains("bad key …"), "{error}");
}

#[test]
fn a_budget_covers_the_bytes_of_a_request_and_its_answer() {
    let text = "x".repeat(100);
    let affordable = |budget| {
        let endpoint = Endpoint::new(options("http://localhost/responses", None, budget)).unwrap();
        endpoint.affordable(&Asked::line(&text))
    };
    let read = Asked::line(&text).read_tokens_max();
    assert!(read >= 100 + INSTRUCTIONS.len() as u64);
    assert_eq!(affordable(0), None);
    assert_eq!(affordable(read + OUTPUT_TOKENS_MIN - 1), None);
    assert_eq!(affordable(read + OUTPUT_TOKENS_MIN), Some(OUTPUT_TOKENS_MIN));
    assert_eq!(affordable(u64::MAX), Some(OUTPUT_TOKENS_MAX));
}

#[test]
fn a_long_text_is_its_beginning_and_its_end() {
    assert_eq!(excerpt("short"), "short");
    let long = format!("begin{}end", "é".repeat(EXCERPT_BYTES_MAX));
    let cut = excerpt(&long);
    assert!(cut.starts_with("begin") && cut.ends_with("end") && cut.contains("bytes left out"));
    assert!(cut.len() < EXCERPT_BYTES_MAX + 64, "{}", cut.len());
}
