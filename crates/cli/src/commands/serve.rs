//! `enjamb serve`

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use enjamb_server::{ListenError, ServeError, ServeOptions, Served, Server, TlsFiles};
use serde_json::json;
use tracing_subscriber::EnvFilter;

use super::Context;
use crate::failure::{Exit, Failure, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb serve\n  enjamb serve --listen 127.0.0.1:0 --log json\n  \
    enjamb serve --listen 0.0.0.0:443 --tls-cert chain.pem --tls-key key.pem --host ctx.acme.dev\n\n\
    Other programs of yours send the token that lies in the store's directory; those who use the unix socket there \
    need none. Ctrl-C ends the server when the requests under way are done.")]
pub struct Serve {
    /// Where to listen; port 0 takes one that is free
    #[arg(long, default_value = "127.0.0.1:4477", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Answer for this host name as well
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// A certificate chain, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Listen beyond this machine without encryption: something before it encrypts
    #[arg(long)]
    plain_http: bool,
    /// How the log on stderr is written; what goes into it is said by $ENJAMB_LOG, such as info or debug
    #[arg(long, value_enum, default_value = "text")]
    log: Log,
    /// See that everything is there to serve, and end
    #[arg(long)]
    check: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Log {
    Text,
    Json,
}

impl Serve {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        begin_log(self.log);
        let dir = context.store_dir()?;
        let tls = self.tls_cert.zip(self.tls_key).map(|(certificate, key)| TlsFiles { certificate, key });
        let mut options = ServeOptions::local(&dir, 0);
        options.listen = self.listen;
        options.hosts = self.hosts;
        options.tls = tls;
        options.plain_ok = self.plain_http;
        let server = Server::bind(options).map_err(failed)?;
        announce(context, &dir, &server.served(), self.check)?;
        context.ui.flush()?;
        if !self.check {
            server.run().map_err(failed)?;
        }
        Ok(Exit::Done)
    }
}

fn begin_log(log: Log) {
    let filter = EnvFilter::try_from_env("ENJAMB_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let writer = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match log {
        Log::Text => writer.with_ansi(false).init(),
        Log::Json => writer.json().init(),
    }
}

fn announce(context: &mut Context<'_>, dir: &std::path::Path, served: &Served, is_check: bool) -> Result<()> {
    let scheme = if served.is_tls { "https" } else { "http" };
    let url = format!("{scheme}://{}", served.address);
    let (socket, token) = (served.socket.display().to_string(), dir.join("token").display().to_string());
    if context.ui.is_json() {
        let value = json!({
            "url": url, "api": format!("{url}/v1"), "socket": socket, "token": token, "store": dir.to_string_lossy(),
            "check": is_check,
        });
        return Ok(context.ui.json("serve", value)?);
    }
    let ui = &mut context.ui;
    ui.line(format!("enjamb {}  store {}", env!("CARGO_PKG_VERSION"), dir.display()))?;
    ui.line(format!("  api    {url}/v1    openapi {url}/v1/openapi.json    docs {url}/docs"))?;
    ui.line(format!("  unix   {socket}"))?;
    ui.line(format!("  token  {token}"))?;
    if is_check {
        ui.good("all is there to serve")?;
    }
    Ok(())
}

fn failed(error: ServeError) -> Failure {
    let help = match &error {
        ServeError::Listen(ListenError::Tcp { .. }) => Some("enjamb serve --listen 127.0.0.1:0    takes a free port"),
        ServeError::Listen(ListenError::Served(_)) => Some("end that server first, or use it"),
        _ => None,
    };
    match error {
        ServeError::Store(error) => error.into(),
        other => Failure::Usage { message: other.to_string(), help: help.map(str::to_owned) },
    }
}
