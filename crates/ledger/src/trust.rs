//! Whom this program believes over TLS, whatever it asks.

use std::sync::Arc;

use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Trusts whom the machine trusts.
pub fn tls() -> TlsConfig {
    let roots = rustls_native_certs::load_native_certs().certs;
    let roots: Vec<_> = roots.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
    TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build()
}
