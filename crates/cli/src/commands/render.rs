//! `enjamb render`

use clap::Args;
use enjamb_core::compile::RenderTarget;
use enjamb_service::ServiceError;
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
        let target = RenderTarget::from_id(&self.target).ok_or_else(|| ServiceError::Invalid {
            what: "provider",
            text: self.target.clone(),
            expected: "open-responses, anthropic or openai-chat",
        })?;
        let store = context.open()?;
        let artifact = store.resolve_artifact(&self.bundle)?;
        let bytes = store.render(&artifact, target)?;
        if context.ui.is_json() {
            let rendered: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            let value = json!({"bundle": artifact.to_string(), "for": target.id(), "rendered": rendered});
            context.ui.json("render", value)?;
        } else {
            context.ui.readable(&[bytes.as_slice(), b"\n"].concat())?;
        }
        Ok(Exit::Done)
    }
}
