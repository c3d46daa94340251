//! `enjamb serve`

use std::net::SocketAddr;
use std::path::Path;

use clap::{Args, ValueEnum};
use enjamb_server::{KeySource, ListenError, OidcOptions, ServeError, ServeOptions, Served, Server, TlsFiles};
use enjamb_service::{Config, ServeSettings};
use serde_json::json;
use tracing_subscriber::EnvFilter;

use super::Context;
use super::task::runner;
use super::upkeep::Upkeep;
use crate::failure::{Exit, Failure, Result};
use crate::ui::Table;

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb serve\n  enjamb serve --listen 127.0.0.1:0 --log json\n  \
    enjamb serve --listen 0.0.0.0:443 --tls-cert chain.pem --tls-key key.pem --host ctx.acme.dev\n\n\
    Other programs of yours send the token that lies in the store's directory; those who use the unix socket there \
    need none. Ctrl-C ends the server when the requests under way are done.")]
pub struct Serve {
    /// Where to listen [default: 127.0.0.1:4477]; port 0 takes one that is free
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Answer for this host name as well
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// A certificate chain, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<String>,
    /// The key of the certificate, as PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<String>,
    /// Listen beyond this machine without encryption: something before it encrypts
    #[arg(long)]
    plain_http: bool,
    /// Take tokens of this OpenID Connect provider too
    #[arg(long, value_name = "URL", requires = "oidc_audience")]
    oidc_issuer: Option<String>,
    /// What its tokens have to be made for
    #[arg(long, value_name = "NAME", requires = "oidc_issuer")]
    oidc_audience: Option<String>,
    /// Its public keys; found by its description if not given
    #[arg(long, value_name = "FILE|URL", requires = "oidc_issuer")]
    oidc_keys: Option<String>,
    /// The claim that names the namespace
    #[arg(long, value_name = "NAME", requires = "oidc_issuer")]
    oidc_namespace_claim: Option<String>,
    /// Send a span for each request to this collector of OpenTelemetry (OTLP over HTTP), such as http://127.0.0.1:4318
    #[arg(long, value_name = "URL")]
    otel_endpoint: Option<String>,
    /// How the log on stderr is written; what goes into it is said by $ENJAMB_LOG, such as info or debug
    #[arg(long, value_enum, default_value = "text")]
    log: Log,
    /// See that everything is there to serve, show the settings and where they come from, and end
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
        let mut config = context.config()?;
        self.lay_over(&mut config)?;
        let settings = config.serve();
        let runner = Some(runner(&dir, config.clone())?);
        let server = Server::bind(ServeOptions { runner, ..self.options(&dir, &settings)? }).map_err(failed)?;
        announce(context, &dir, &server.served(), self.check.then_some(&config))?;
        context.ui.flush()?;
        if !self.check {
            Upkeep { dir, drain: settings.drain, maintain: settings.maintain }.start();
            server.run().map_err(failed)?;
        }
        Ok(Exit::Done)
    }

    /// Flags are over files and variables.
    fn lay_over(&self, config: &mut Config) -> Result<()> {
        let listen = self.listen.map(|at| at.to_string());
        for (key, flag, text) in [
            ("serve.listen", "--listen", &listen),
            ("serve.tls_cert", "--tls-cert", &self.tls_cert),
            ("serve.tls_key", "--tls-key", &self.tls_key),
            ("serve.oidc_issuer", "--oidc-issuer", &self.oidc_issuer),
            ("serve.oidc_audience", "--oidc-audience", &self.oidc_audience),
            ("serve.oidc_keys", "--oidc-keys", &self.oidc_keys),
            ("serve.oidc_namespace_claim", "--oidc-namespace-claim", &self.oidc_namespace_claim),
            ("serve.otel_endpoint", "--otel-endpoint", &self.otel_endpoint),
        ] {
            if let Some(text) = text {
                config.set(key, flag, text).map_err(|error| Failure::usage(error.to_string()))?;
            }
        }
        Ok(())
    }

    fn options(&self, dir: &Path, settings: &ServeSettings) -> Result<ServeOptions> {
        let listen = &settings.listen;
        let bad = |_| Failure::usage(format!("serve.listen is {listen:?}, and has to be such as 127.0.0.1:4477"));
        let mut options = ServeOptions::local(dir, 0);
        options.listen = listen.parse().map_err(bad)?;
        options.hosts = settings.hosts.iter().chain(&self.hosts).cloned().collect();
        options.tls = tls(settings)?;
        options.plain_ok = self.plain_http;
        // Whoever names a place wants that one.
        options.inherit = self.listen.is_none();
        options.oidc = oidc(settings)?;
        options.otel_endpoint = settings.otel_endpoint.clone();
        options.bounds.namespace_bytes_max = settings.namespace_bytes_max;
        options.bounds.namespace_streams_max = settings.namespace_streams_max;
        Ok(options)
    }
}

fn tls(settings: &ServeSettings) -> Result<Option<TlsFiles>> {
    match (&settings.tls_cert, &settings.tls_key) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate: certificate.into(), key: key.into() })),
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => Err(Failure::usage("serve.tls_cert and serve.tls_key go together")),
    }
}

fn oidc(settings: &ServeSettings) -> Result<Option<OidcOptions>> {
    match (&settings.oidc_issuer, &settings.oidc_audience) {
        (Some(issuer), Some(audience)) => {
            let keys = settings.oidc_keys.as_deref().map_or(KeySource::Discovered, KeySource::parse);
            let mut options = OidcOptions::new(issuer, audience, keys);
            options.namespace_claim.clone_from(&settings.oidc_namespace_claim);
            Ok(Some(options))
        }
        (None, None) => Ok(None),
        (Some(_), None) | (None, Some(_)) => {
            Err(Failure::usage("serve.oidc_issuer and serve.oidc_audience go together"))
        }
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

/// Says where the server is; of a check, also which settings hold and where each comes from.
fn announce(context: &mut Context<'_>, dir: &Path, served: &Served, checked: Option<&Config>) -> Result<()> {
    let scheme = if served.is_tls { "https" } else { "http" };
    let url = format!("{scheme}://{}", served.address);
    let store = enjamb_service::shown_store(dir)?;
    let (socket, token) = (served.socket.display().to_string(), dir.join("token").display().to_string());
    if context.ui.is_json() {
        let mut value = json!({
            "url": url, "api": format!("{url}/v1"), "socket": socket, "token": token, "store": store,
            "check": checked.is_some(),
        });
        if let Some(config) = checked {
            let rows =
                of_serve(config).map(|(key, value, origin)| json!({"key": key, "value": value, "origin": origin}));
            value["settings"] = rows.collect();
        }
        return Ok(context.ui.json("serve", value)?);
    }
    let ui = &mut context.ui;
    ui.line(format!("enjamb {}  store {store}", env!("CARGO_PKG_VERSION")))?;
    ui.line(format!("  api    {url}/v1    openapi {url}/v1/openapi.json    docs {url}/docs"))?;
    ui.line(format!("  unix   {socket}"))?;
    ui.line(format!("  token  {token}"))?;
    if let Some(config) = checked {
        let mut table = Table::new(&["setting", "value", "origin"]);
        of_serve(config).for_each(|(key, value, origin)| table.row([key.into(), value.into(), origin.into()]));
        ui.table(&table)?;
        ui.good("all is there to serve")?;
    }
    Ok(())
}

/// The settings of a server: key, value and where it comes from.
fn of_serve(config: &Config) -> impl Iterator<Item = (&str, String, String)> {
    let ours = config.settings().filter(|(key, _)| key.starts_with("serve."));
    ours.map(|(key, setting)| (key, setting.value.to_string(), setting.origin.to_string()))
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
