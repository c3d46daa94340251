//! HTTP and nothing else: every append is read and answered as a server of ours answers it, and nothing is kept. What
//! clients reach with it is what the machine allows.

use std::io::Write;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::routing::post;
use tokio::net::TcpListener;

use crate::Problem;

type Answer = (StatusCode, [(HeaderName, &'static str); 1], &'static str);

/// Says where it is, and serves until it is killed.
pub(super) fn serve() -> Result<String, Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
        let answer = async |_: Bytes| -> Answer {
            let said = r#"{"frames":[{"stream":"bench/s0","seq":0}],"replayed":false}"#;
            (StatusCode::CREATED, [(CONTENT_TYPE, "application/json")], said)
        };
        let router = Router::new().route("/v1/streams/{kind}/{id}/frames", post(answer));
        let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
            // Answers are small and each is waited for.
            let _ = stream.set_nodelay(true);
        });
        axum::serve(listener, router).await?;
        Ok(String::new())
    })
}
