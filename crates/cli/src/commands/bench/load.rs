//! Clients that append over HTTP, each on a connection that it keeps, and each waiting for its answer before it goes on.
//!
//! One thread is all of them: clients are other machines, and what it costs to be many of them is not the server's.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde_json::{Value, json};

use super::server::{Serving, at, broken};
use crate::failure::{Failure, Result};

/// Clients of a server that append, each to a stream of its own, for some seconds.
pub fn run(serving: &Serving, clients: usize, seconds: u64) -> Result<Value> {
    let mut poll = Poll::new().map_err(broken("waiting for answers"))?;
    let mut all = (0..clients).map(|number| Client::new(serving, number, &poll)).collect::<Result<Vec<_>>>()?;
    let mut events = Events::with_capacity(clients);
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    all.iter_mut().try_for_each(|client| client.send(Instant::now()))?;
    let mut waiting = clients;
    while waiting > 0 {
        wait(&mut poll, &mut events, None).map_err(broken("waiting for answers"))?;
        for event in &events {
            let client = &mut all[event.token().0];
            let Some(now) = client.take()? else { continue };
            if now < until { client.send(now)? } else { waiting -= 1 }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    let mut latencies: Vec<f64> = all.into_iter().flat_map(|client| client.latencies).collect();
    latencies.sort_by(f64::total_cmp);
    Ok(json!({"seconds": seconds, "n": latencies.len(), "p50_us": at(&latencies, 0.5), "p99_us": at(&latencies, 0.99)}))
}

/// Waits for events. A process that is stopped for a while and goes on has merely waited for longer.
pub fn wait(poll: &mut Poll, events: &mut Events, most: Option<Duration>) -> io::Result<()> {
    match poll.poll(events, most) {
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        waited => waited,
    }
}

/// An answer to an append is far shorter.
const ANSWER_BYTES_MAX: usize = 4096;

struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    got: Box<[u8; ANSWER_BYTES_MAX]>,
    got_len: usize,
    began: Instant,
    latencies: Vec<f64>,
}

impl Client {
    fn new(serving: &Serving, number: usize, poll: &Poll) -> Result<Self> {
        let failed = broken("a connection");
        let stream = serving.stream()?;
        stream.set_nonblocking(true).map_err(&failed)?;
        let mut stream = TcpStream::from_std(stream);
        poll.registry().register(&mut stream, Token(number), Interest::READABLE).map_err(&failed)?;
        let request = request(&serving.append_head(&format!("s{number}")), number).into_bytes();
        let got = Box::new([0; ANSWER_BYTES_MAX]);
        Ok(Self { stream, request, got, got_len: 0, began: Instant::now(), latencies: Vec::new() })
    }

    fn send(&mut self, now: Instant) -> Result<()> {
        self.began = now;
        // Nothing else is on its way, so there is room for it.
        self.stream.write_all(&self.request).map_err(broken("an append"))
    }

    /// Takes what has come, and says when, if that is the answer. It has to be the next place of the stream. Of what has
    /// come nothing is left: nobody sends anything before the next request.
    fn take(&mut self) -> Result<Option<Instant>> {
        match self.stream.read(&mut self.got[self.got_len..]) {
            Ok(0) => return Err(broken("an answer")(ErrorKind::UnexpectedEof.into())),
            Ok(read) => self.got_len += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(broken("an answer")(error)),
        }
        let got = &self.got[..self.got_len];
        let Some(answer) = Answer::read(got) else { return Ok(None) };
        let next = self.latencies.len() as u64 + 1;
        if answer.status != 201 || answer.next.is_some_and(|said| said != next) {
            let text = String::from_utf8_lossy(got).into_owned();
            return Err(Failure::usage(format!("append {next} of a stream was answered with {text}")));
        }
        let now = Instant::now();
        self.latencies.push((now - self.began).as_secs_f64());
        self.got_len = 0;
        Ok(Some(now))
    }
}

/// A frame of about 1 KB, on its way to be appended.
pub fn request(head: &str, number: usize) -> String {
    let body = format!(r#"{{"type":"said","n":{number},"text":"{}"}}"#, "x".repeat(960));
    format!("{head}content-length: {}\r\n\r\n{body}", body.len())
}

/// What an answer says of an append.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// The seq that comes next in the stream.
    pub next: Option<u64>,
}

impl Answer {
    /// `None` when it has not come as a whole.
    fn read(got: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(got).ok()?;
        let (mut head_len, mut body_len, mut next) = (0, None, None);
        for line in text.split_inclusive('\n') {
            head_len += line.len();
            if line == "\r\n" {
                let is_whole = got.len() >= head_len + body_len?;
                let status = text.split(' ').nth(1)?.parse().ok()?;
                return is_whole.then_some(Self { status, next });
            }
            let Some(colon) = line.find(':') else { continue };
            let (name, value) = (&line[..colon], line[colon + 1..].trim());
            if name.eq_ignore_ascii_case("content-length") {
                body_len = value.parse::<usize>().ok();
            } else if name.eq_ignore_ascii_case("etag") {
                next = value.trim_matches('"').parse().ok();
            }
        }
        None
    }

    /// Waits for an answer.
    pub fn wait(stream: &mut impl Read) -> io::Result<Self> {
        let (mut got, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match stream.read(&mut buffer)? {
                0 => return Err(ErrorKind::UnexpectedEof.into()),
                read => got.extend_from_slice(&buffer[..read]),
            }
            if let Some(answer) = Self::read(&got) {
                return Ok(answer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_when_all_of_it_is_there() {
        let whole = b"HTTP/1.1 201 Created\r\nETag: \"7\"\r\nContent-Length: 2\r\n\r\n{}";
        for len in 0..whole.len() {
            assert_eq!(Answer::read(&whole[..len]), None, "{len}");
        }
        assert_eq!(Answer::read(whole), Some(Answer { status: 201, next: Some(7) }));
    }
}
