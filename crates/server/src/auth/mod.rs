//! Who asks: tokens, what they allow, and whose name their holders act in.

mod caller;
mod oidc;
mod secret;
mod tokens;

pub use caller::{Caller, Via};
pub use oidc::{KeySource, Oidc, OidcError, OidcOptions};
pub use secret::Secret;
pub use tokens::{NewToken, TokenError, TokenView, Tokens};
