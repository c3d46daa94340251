//! `enjamb token`

use clap::{Args, Subcommand};
use enjamb_server::{NewToken, Scope, TokenError, TokenView, Tokens};
use enjamb_service::{Env, ServiceError, parse_ttl};
use serde_json::{Value, json};

use super::Context;
use super::status::iso;
use crate::failure::{Exit, Failure, Result};
use crate::ui::{Cell, Table};

#[derive(Subcommand)]
pub enum Token {
    /// Make a token for somebody
    #[command(
        after_help = "Example:\n  enjamb token create --scope read,append --principal bot/triage --expires 30d\n  \
        enjamb token create --scope append --namespace team-a\n\nThe token is shown once; only a digest of it is kept."
    )]
    Create(Create),
    /// List tokens
    #[command(after_help = "Example:\n  enjamb token list")]
    List,
    /// Take a token away
    #[command(after_help = "Example:\n  enjamb token revoke 3f2a91")]
    Revoke {
        /// Its id, or the beginning of it
        id: String,
    },
}

#[derive(Args)]
pub struct Create {
    /// What it allows: read, append, admin
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', required = true)]
    scopes: Vec<String>,
    /// In whose name its holder acts; without it, they say themselves
    #[arg(long, value_name = "NAME")]
    principal: Option<String>,
    /// A store of its own, apart from this one and all others
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// How long it is good (90s, 15m, 12h, 30d)
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
}

impl Token {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        // A list of tokens belongs to a store.
        let dir = match &self {
            Self::Create(_) => context.open_or_create()?.dir().to_owned(),
            Self::List | Self::Revoke { .. } => context.open()?.dir().to_owned(),
        };
        let tokens = Tokens::of(&dir);
        match self {
            Self::Create(create) => create.run(context, &tokens),
            Self::List => list(context, &tokens.list().map_err(failed)?),
            Self::Revoke { id } => {
                let gone = tokens.revoke(&id).map_err(failed)?;
                if context.ui.is_json() {
                    context.ui.json("token_revoke", json(&gone))?;
                } else {
                    context.ui.line(format!("revoked {}", gone.id))?;
                }
                Ok(Exit::Done)
            }
        }
    }
}

impl Create {
    fn run(self, context: &mut Context<'_>, tokens: &Tokens) -> Result<Exit> {
        let scopes = self.scopes.iter().map(|scope| Scope::parse(scope).map_err(failed)).collect::<Result<Vec<_>>>()?;
        let now_ms = Env::system().now().as_millis();
        let ttl_ms = self.expires.as_deref().map(parse_ttl).transpose()?;
        let new = NewToken {
            principal: self.principal,
            scopes,
            namespace: self.namespace,
            expires_ms: ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms)),
        };
        let (view, secret) = tokens.create(new, now_ms).map_err(failed)?;
        if context.ui.is_json() {
            let mut value = json(&view);
            value["token"] = secret.reveal().into();
            context.ui.json("token_create", value)?;
            return Ok(Exit::Done);
        }
        context.ui.note(&format!("{}: {}   it is not shown again", view.id, view.scopes.join(" ")));
        context.ui.answer(secret.reveal())?;
        Ok(Exit::Done)
    }
}

fn json(view: &TokenView) -> Value {
    json!({
        "id": view.id, "scopes": view.scopes, "principal": view.principal, "namespace": view.namespace,
        "created_at": iso(view.created_ms), "expires_at": view.expires_ms.map(iso),
    })
}

fn list(context: &mut Context<'_>, all: &[TokenView]) -> Result<Exit> {
    if context.ui.is_json() {
        context.ui.json("token_list", json!({"tokens": all.iter().map(json).collect::<Vec<_>>()}))?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["token", "scopes", "principal", "namespace", "expires"]);
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
    for view in all {
        let expires = view.expires_ms.map_or_else(|| "-".into(), iso);
        table.row([
            view.id.clone().into(),
            view.scopes.join(",").into(),
            or_dash(&view.principal).into(),
            or_dash(&view.namespace).into(),
            Cell::from(expires),
        ]);
    }
    context.ui.table(&table)?;
    Ok(Exit::Done)
}

fn failed(error: TokenError) -> Failure {
    match error {
        TokenError::Unknown(id) => ServiceError::Unknown { what: "token", name: id }.into(),
        TokenError::File { path, source } => ServiceError::File { path, source }.into(),
        other => Failure::usage(other.to_string()),
    }
}
