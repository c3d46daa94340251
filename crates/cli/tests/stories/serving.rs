//! A server as a person starts it, and tokens as they are made and taken away.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};

use serde_json::{Value, json};

use crate::expect::{check, check_json};
use crate::runner::{Enjamb, finish};

/// A server that runs, and where.
struct Serving {
    child: Child,
    told: Value,
}

impl Serving {
    fn begin(enjamb: &Enjamb) -> Self {
        Self::started(enjamb.command(&["serve", "--listen", "127.0.0.1:0", "--json"]))
    }

    fn started(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("it says where it listens");
        Self { child, told: serde_json::from_str(&line).expect("a document") }
    }

    fn get(&self, path: &str, token: &str) -> (u16, String) {
        let address = self.told["url"].as_str().and_then(|url| url.strip_prefix("http://")).expect("an address");
        let mut stream = TcpStream::connect(address).expect("a connection");
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it is answered");
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, answer)
    }

    /// Asks it to end, as a person does, and waits until it has.
    fn end(self) -> crate::runner::Answer {
        Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().expect("a signal");
        finish(self.child)
    }
}

#[test]
fn a_server_says_where_it_is_and_ends_when_told() {
    let enjamb = Enjamb::new();
    let serving = Serving::begin(&enjamb);
    check_json(
        &serving.told,
        &json!({
            "schema": "enjamb.cli.serve/1", "url": "http://127.0.0.1:[..]", "api": "http://127.0.0.1:[..]/v1",
            "socket": enjamb.store().join("sock"), "token": enjamb.store().join("token"),
            "store": enjamb.shown_store(), "check": false,
        }),
    );
    let token = std::fs::read_to_string(enjamb.store().join("token")).unwrap();
    assert_eq!(serving.get("/v1/status", token.trim()).0, 200);
    let second = enjamb.run(&["serve", "--listen", "127.0.0.1:0"]).exits(2);
    let socket = enjamb.store().join("sock").display().to_string();
    let expected = format!(
        "error: another server has the store: it listens on {socket}\nhelp:  end that server first, or use it\n"
    );
    check(&second.err(), &expected);
    enjamb.append("note/n", r#"{"type":"x"}"#);
    assert!(
        serving.get("/v1/streams/note/n", token.trim()).1.contains("\"frames\":1"),
        "commands and server share the store"
    );
    let ended = serving.end().done();
    assert_eq!(ended.err(), "");
    assert!(!enjamb.store().join("sock").exists(), "nothing is left behind");
}

/// A certificate for localhost and its key, and the authority that vouches for it, as files.
fn certificate(enjamb: &Enjamb) -> [String; 3] {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".into()]).unwrap().signed_by(&key, &authority).unwrap();
    [
        enjamb.file("chain.pem", leaf.pem()),
        enjamb.file("key.pem", key.serialize_pem()),
        enjamb.file("authority.pem", authority.pem()),
    ]
}

#[test]
fn commands_go_through_tls_to_a_server_whose_authority_they_are_given() {
    let enjamb = Enjamb::with_store();
    let [chain, key, authority] = certificate(&enjamb);
    let serve = ["serve", "--listen", "127.0.0.1:0", "--json", "--tls-cert", &chain, "--tls-key", &key];
    let serving = Serving::started(enjamb.command(&serve));
    let url = serving.told["url"].as_str().expect("an address").replace("127.0.0.1", "localhost");
    assert!(url.starts_with("https://"), "{url}");
    let token = std::fs::read_to_string(enjamb.store().join("token")).unwrap();
    let run = |arguments: &[&str], authority: &str| {
        let mut command = enjamb.command(arguments);
        command.env("ENJAMB_STORE", &url).env("ENJAMB_TOKEN", token.trim()).env("SSL_CERT_FILE", authority);
        crate::runner::answer(command, b"")
    };
    run(&["append", "note/n", "--type", "x"], &authority).done();
    let frames = run(&["frames", "note/n"], &authority).done();
    assert!(frames.out().contains("\"type\":\"x\""), "{}", frames.out());
    let elsewhere = Enjamb::new();
    let [.., other] = certificate(&elsewhere);
    let refused = run(&["frames", "note/n"], &other).exits(8);
    assert!(refused.err().contains("certificate"), "{}", refused.err());
    serving.end().done();
}

#[test]
fn a_server_is_not_opened_to_others_by_accident() {
    let enjamb = Enjamb::with_store();
    let refused = enjamb.run(&["serve", "--listen", "0.0.0.0:0"]).exits(2);
    assert!(refused.err().starts_with("error: 0.0.0.0:0 is reachable from other machines"), "{}", refused.err());
    let bad = enjamb.file("not-a-key.pem", "nothing");
    let refused = enjamb.run(&["serve", "--listen", "0.0.0.0:0", "--tls-cert", &bad, "--tls-key", &bad]).exits(2);
    assert!(refused.err().contains("not-a-key.pem"), "{}", refused.err());
    let told = enjamb.run(&["serve", "--listen", "127.0.0.1:0", "--check"]).done();
    let (shown, dir) = (enjamb.shown_store(), enjamb.store().display().to_string());
    let expected = format!(
        "
enjamb [..]  store {shown}
  api    http://127.0.0.1:[..]/v1    openapi http://127.0.0.1:[..]/v1/openapi.json    docs http://127.0.0.1:[..]/docs
  unix   {dir}/sock
  token  {dir}/token
serve.drain\ton\tdefault
serve.listen\t127.0.0.1:0\t--listen
serve.maintain\ton\tdefault
✓ all is there to serve
"
    );
    check(&told.out(), &expected);
}

#[test]
fn settings_come_from_a_file_a_variable_or_a_flag() {
    let enjamb = Enjamb::with_store();
    let file = enjamb
        .file("settings.toml", "[serve]\nlisten = \"127.0.0.1:0\"\nmaintain = \"off\"\nhosts = [\"ctx.acme.dev\"]\n");
    let mut command = enjamb.command(&["serve", "--check", "--json"]);
    command.env("ENJAMB_CONFIG", &file).env("ENJAMB_SERVE_DRAIN", "off");
    let told: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let row = |key: &str, value: &str, origin: &str| json!({"key": key, "value": value, "origin": origin});
    check_json(
        &told["settings"],
        &json!([
            row("serve.drain", "off", "$ENJAMB_SERVE_DRAIN"),
            row("serve.hosts", "[..]ctx.acme.dev[..]", "[..]settings.toml:4"),
            row("serve.listen", "127.0.0.1:0", "[..]settings.toml:2"),
            row("serve.maintain", "off", "[..]settings.toml:3"),
        ]),
    );
    let bad = enjamb.file("bad.toml", "[serve]\nlisten = \"nowhere\"\n");
    let mut command = enjamb.command(&["serve", "--check"]);
    let refused = command.env("ENJAMB_CONFIG", &bad).output().unwrap();
    let words = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && words.contains("serve.listen is \"nowhere\""), "{words}");
    let refused = enjamb.run(&["serve", "--check", "--oidc-issuer", "https://id.example"]).exits(2);
    assert!(refused.err().contains("--oidc-audience"), "{}", refused.err());
    let keys =
        ["serve", "--check", "--listen", "127.0.0.1:0", "--oidc-issuer", "https://id.example", "--oidc-audience", "a"];
    let refused = enjamb.run(&[&keys[..], &["--oidc-keys", "none.json"]].concat()).exits(2);
    assert!(
        refused.err().contains("the keys of https://id.example cannot be read from none.json"),
        "{}",
        refused.err()
    );
}

#[test]
fn a_socket_that_was_opened_before_is_taken() {
    let enjamb = Enjamb::with_store();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    // As systemd does: the socket is the fourth file, and two variables say so.
    let script = "exec 3<&0 </dev/null; export LISTEN_PID=$$ LISTEN_FDS=1; exec \"$@\"";
    let server = enjamb.command(&["serve", "--json"]);
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(server.get_program()).args(server.get_args());
    for (name, value) in server.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command.stdin(std::os::fd::OwnedFd::from(listener)).stdout(std::process::Stdio::piped());
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let serving = Serving { child, told: serde_json::from_str(&line).unwrap() };
    assert_eq!(serving.told["url"], format!("http://{address}"));
    let token = std::fs::read_to_string(enjamb.store().join("token")).unwrap();
    assert_eq!(serving.get("/v1/status", token.trim()).0, 200);
    serving.end().done();
}

#[test]
fn tokens_are_made_listed_used_and_taken_away() {
    let enjamb = Enjamb::with_store();
    let made = enjamb.run(&["token", "create", "--scope", "read", "--principal", "bot", "--expires", "1h"]).done();
    let token = made.line();
    assert!(token.starts_with("enj_") && token.len() == 68, "{token}");
    let listed = enjamb.json(&["token", "list"]);
    let id = listed["tokens"][0]["id"].as_str().unwrap().to_owned();
    check_json(
        &listed["tokens"][0],
        &json!({
            "id": "[..]", "scopes": ["read"], "principal": "bot", "namespace": null, "created_at": "[..]Z",
            "expires_at": "[..]Z",
        }),
    );
    check(&enjamb.run(&["token", "list"]).done().out(), &format!("{id}\tread\tbot\t-\t[..]Z\n"));
    let serving = Serving::begin(&enjamb);
    assert_eq!(serving.get("/v1/status", &token).0, 200);
    check(&enjamb.run(&["token", "revoke", &id[..6]]).done().out(), &format!("revoked {id}\n"));
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(serving.get("/v1/status", &token).0, 401);
    serving.end().done();
    check(&enjamb.run(&["token", "revoke", &id]).exits(3).err(), &format!("error: no token {id}\n"));
    let refused = enjamb.run(&["token", "create", "--scope", "everything"]).exits(2);
    check(&refused.err(), "error: \"everything\" is no scope: expected read, append or admin\n");
    let refused = enjamb.run(&["token", "create", "--scope", "read", "--namespace", "../x"]).exits(2);
    assert!(refused.err().contains("is no name for a namespace"), "{}", refused.err());
}
