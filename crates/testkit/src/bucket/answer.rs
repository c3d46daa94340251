//! What is answered, and what is done.

use std::io::{self, BufReader, Write};
use std::net::TcpStream;
use std::sync::Mutex;

use enjamb_core::Digest;

use super::{Asked, Misdeed, State};

struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// What a request for the head alone is told that the body would have.
    len: usize,
}

impl Reply {
    fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let body = body.into();
        Self { status, headers: Vec::new(), len: body.len(), body }
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

pub(super) fn serve(connection: &TcpStream, state: &Mutex<State>) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut reader = BufReader::new(connection);
    while let Some(mut asked) = Asked::read(&mut reader)? {
        let (misdeed, reply) = {
            let mut state = state.lock().expect("no holder panics");
            asked.number = state.asked.len();
            let misdeed = state.mood.as_ref().and_then(|mood| mood(&asked));
            let reply = state.reply(&asked, misdeed.as_ref());
            state.asked.push(asked);
            (misdeed, reply)
        };
        match misdeed {
            Some(Misdeed::Silent) => return Ok(()),
            Some(Misdeed::Partial) => return send(connection, &reply, reply.body.len() / 2),
            Some(Misdeed::Slow(pause)) => std::thread::sleep(pause),
            _ => {}
        }
        send(connection, &reply, reply.body.len())?;
    }
    Ok(())
}

fn send(mut connection: &TcpStream, reply: &Reply, bytes: usize) -> io::Result<()> {
    let mut head = format!("HTTP/1.1 {} Said\r\ncontent-length: {}\r\n", reply.status, reply.len);
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    connection.write_all(head.as_bytes())?;
    connection.write_all(&reply.body[..bytes])
}

impl State {
    fn reply(&mut self, asked: &Asked, misdeed: Option<&Misdeed>) -> Reply {
        if let Some(Misdeed::Status(status)) = misdeed {
            return Reply::new(*status, "<Error><Code>Misbehaving</Code></Error>");
        }
        let reply = match (asked.method.as_str(), asked.query.get("uploadId").cloned()) {
            ("GET", _) => self.get(asked),
            ("HEAD", _) => Reply { body: Vec::new(), ..self.get(asked) },
            ("PUT", Some(upload)) => self.put_part(asked, &upload),
            ("PUT", None) => self.put(asked, misdeed),
            ("POST", Some(upload)) => self.complete(asked, &upload, misdeed),
            ("POST", None) => self.begin(asked),
            ("DELETE", Some(upload)) => {
                self.uploads.remove(&upload);
                Reply::new(204, "")
            }
            ("DELETE", None) => {
                self.objects.remove(&asked.key);
                Reply::new(204, "")
            }
            _ => Reply::new(405, ""),
        };
        match misdeed {
            Some(Misdeed::Wrong) => Reply { body: reply.body.iter().map(|byte| byte ^ 1).collect(), ..reply },
            _ => reply,
        }
    }

    fn get(&self, asked: &Asked) -> Reply {
        let Some(bytes) = self.objects.get(&asked.key) else {
            return Reply::new(404, "<Error><Code>NoSuchKey</Code></Error>");
        };
        let reply = match asked.range(bytes.len()) {
            None => Reply::new(200, bytes.clone()),
            Some(range) if range.start >= range.end => Reply::new(416, ""),
            Some(range) => {
                let told = format!("bytes {}-{}/{}", range.start, range.end - 1, bytes.len());
                Reply::new(206, bytes[range].to_vec()).header("content-range", told)
            }
        };
        reply.header("etag", etag(bytes)).header("last-modified", "Mon, 16 Nov 2026 12:00:00 GMT")
    }

    fn put(&mut self, asked: &Asked, misdeed: Option<&Misdeed>) -> Reply {
        let is_condition = asked.headers.contains_key("if-none-match");
        if is_condition && !self.ignores_conditions && self.objects.contains_key(&asked.key) {
            return Reply::new(412, "<Error><Code>PreconditionFailed</Code></Error>");
        }
        self.store(asked, asked.body.clone(), misdeed);
        Reply::new(200, "").header("etag", etag(&asked.body))
    }

    fn store(&mut self, asked: &Asked, mut bytes: Vec<u8>, misdeed: Option<&Misdeed>) {
        match misdeed {
            Some(Misdeed::Lost) => return,
            Some(Misdeed::Torn) => bytes.truncate(bytes.len() / 2),
            _ => {}
        }
        self.objects.insert(asked.key.clone(), bytes);
    }

    fn begin(&mut self, asked: &Asked) -> Reply {
        let upload = format!("upload-{}", asked.number);
        self.uploads.insert(upload.clone(), Vec::new());
        let told = "<InitiateMultipartUploadResult><UploadId>{}</UploadId></InitiateMultipartUploadResult>";
        Reply::new(200, told.replace("{}", &upload))
    }

    fn put_part(&mut self, asked: &Asked, upload: &str) -> Reply {
        let number = asked.query.get("partNumber").and_then(|number| number.parse().ok());
        match (self.uploads.get_mut(upload), number) {
            (Some(parts), Some(number)) => {
                parts.push((number, asked.body.clone()));
                Reply::new(200, "").header("etag", etag(&asked.body))
            }
            _ => Reply::new(404, "<Error><Code>NoSuchUpload</Code></Error>"),
        }
    }

    fn complete(&mut self, asked: &Asked, upload: &str, misdeed: Option<&Misdeed>) -> Reply {
        let Some(mut parts) = self.uploads.remove(upload) else {
            return Reply::new(404, "<Error><Code>NoSuchUpload</Code></Error>");
        };
        parts.sort();
        // A part that was sent twice counts once.
        parts.dedup_by_key(|(number, _)| *number);
        let bytes: Vec<u8> = parts.into_iter().flat_map(|(_, bytes)| bytes).collect();
        let tag = etag(&bytes);
        self.store(asked, bytes, misdeed);
        let told = "<CompleteMultipartUploadResult><ETag>{}</ETag></CompleteMultipartUploadResult>";
        Reply::new(200, told.replace("{}", &tag.replace('"', "&quot;")))
    }
}

fn etag(bytes: &[u8]) -> String {
    format!("\"{}\"", &Digest::of(bytes).to_string()[..32])
}
