//! `enjamb render`

use clap::Args;
use serde_json::{Value, json};

use super::Context;
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(
    after_help = "Example:\n  enjamb render art-3f2a91\n  enjamb render art-3f2a91 --for anthropic > context.json\n\n\
    The same bundle always gives the same bytes. open-responses is input[], openai-chat is messages[], and anthropic \
    an object with system[] and messages[]. Secrets are replaced by their kind."
)]
pub struct Render {
    /// The bundle: an artifact or a tag
    bundle: String,
    /// Whose request it is for: open-responses, anthropic or openai-chat
    #[arg(long = "for", value_name = "PROVIDER", default_value = "open-responses")]
    target: String,
}

impl Render {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let asked = json!({"bundle": self.bundle, "target": self.target});
        let (bytes, told) = context.operations()?.bytes("render", asked)?;
        if context.ui.is_json() {
            let rendered: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let bundle = told.get("enjamb-bundle").unwrap_or_default();
            context.ui.json("render", json!({"bundle": bundle, "for": self.target, "rendered": rendered}))?;
        } else {
            context.ui.readable(&[bytes.as_slice(), b"\n"].concat())?;
        }
        Ok(Exit::Done)
    }
}
