//! A browser's own `EventSource`. It cannot send a token, so a small proxy adds it, as one before a team's server would;
//! the proxy also serves the page, and breaks the first connection off, to see the browser come back by itself.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use super::serving::Serving;
use crate::Problem;

/// Events that are appended, and of which the browser has to see each once.
const EVENTS: u32 = 40;
/// The first connection is broken off after so many.
const CUT_AFTER: usize = 15;
const PATIENCE: Duration = Duration::from_secs(60);

const PAGE: &str = r#"<!doctype html><title>events</title><script>
const seen = [];
const source = new EventSource("/v1/streams/note/watched/events");
source.addEventListener("said", event => {
  seen.push(event.lastEventId + ":" + JSON.parse(event.data).n);
  if (seen.length === COUNT) { source.close(); fetch("/done?" + seen.join(",")); }
});
</script>"#;

pub(super) fn follow(serving: &Serving, place: &Path) -> Result<(), Problem> {
    serving.append("watched", 0)?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|cause| format!("the proxy: {cause}"))?;
    let address = listener.local_addr().map_err(|cause| format!("the proxy: {cause}"))?;
    let (done, is_done) = channel();
    let upstream = Upstream { address: serving.address().to_owned(), token: serving.token.clone() };
    let (upstream, connections) = (Arc::new(upstream), Arc::new(AtomicU32::new(0)));
    let counted = connections.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (upstream, done, connections) = (upstream.clone(), done.clone(), connections.clone());
            // A browser opens connections and drops them as it likes.
            std::thread::spawn(move || drop(upstream.answer(stream, &done, &connections)));
        }
    });
    let mut browser = Command::new("chromium");
    browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    browser.arg(format!("--user-data-dir={}", place.join("browser").display())).arg(format!("http://{address}/"));
    let spawned = browser.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env("HOME", place).spawn();
    let mut browser = spawned.map_err(|cause| format!("chromium: {cause}"))?;
    let told = (1..EVENTS).try_for_each(|number| {
        std::thread::sleep(Duration::from_millis(100));
        serving.append("watched", number)
    });
    let seen = is_done.recv_timeout(PATIENCE);
    let _ = browser.kill();
    let _ = browser.wait();
    told?;
    let seen = seen.map_err(|_| "the browser did not see all events in time".to_owned())?;
    let expected: Vec<String> = (0..EVENTS).map(|number| format!("{number}:{number}")).collect();
    if seen != expected.join(",") {
        return Err(format!("the browser saw {seen} instead of {}", expected.join(",")));
    }
    let connections = counted.load(Ordering::Relaxed);
    if connections < 2 {
        return Err("the browser was not cut off, so it was not seen to come back".into());
    }
    println!("The browser's EventSource saw {EVENTS} events, each once and in order, over {connections} connections.");
    Ok(())
}

/// The server that requests are passed on to.
struct Upstream {
    address: String,
    token: String,
}

impl Upstream {
    fn answer(&self, browser: TcpStream, done: &Sender<String>, connections: &AtomicU32) -> io::Result<()> {
        let mut reader = BufReader::new(browser.try_clone()?);
        let mut head = String::new();
        while reader.read_line(&mut head)? > 2 {}
        let target = head.split(' ').nth(1).unwrap_or("/").to_owned();
        match target.split_once('?') {
            Some(("/done", seen)) => {
                // Whoever waited may have given up.
                let _ = done.send(seen.to_owned());
                page(browser, "done")
            }
            _ if target.starts_with("/v1/") => {
                let is_first = connections.fetch_add(1, Ordering::Relaxed) == 0;
                self.pass_on(browser, &head, is_first)
            }
            _ => page(browser, &PAGE.replace("COUNT", &EVENTS.to_string())),
        }
    }

    /// Passes a request on with the token, and what is answered back; of the first, only the beginning.
    fn pass_on(&self, mut browser: TcpStream, head: &str, is_first: bool) -> io::Result<()> {
        let mut server = TcpStream::connect(&self.address)?;
        let (first, rest) = head.split_once("\r\n").unwrap_or((head, ""));
        write!(server, "{first}\r\nauthorization: Bearer {}\r\n{rest}", self.token)?;
        let (mut buffer, mut events) = ([0; 4096], 0);
        loop {
            let read = server.read(&mut buffer)?;
            events += buffer[..read].windows(4).filter(|four| four == b"id: ").count();
            if read == 0 || (is_first && events > CUT_AFTER) {
                return browser.shutdown(Shutdown::Both);
            }
            browser.write_all(&buffer[..read])?;
        }
    }
}

fn page(mut browser: TcpStream, text: &str) -> io::Result<()> {
    let length = text.len();
    write!(
        browser,
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{text}"
    )
}
