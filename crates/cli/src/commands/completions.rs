//! `enjamb completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use serde_json::json;

use super::{Cli, Context};
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb completions bash > /etc/bash_completion.d/enjamb\n  \
    enjamb completions zsh > ~/.zfunc/_enjamb")]
pub struct Completions {
    shell: Shell,
}

impl Completions {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "enjamb", &mut text);
        if context.ui.is_json() {
            let value = json!({"shell": self.shell.to_string(), "script": String::from_utf8_lossy(&text)});
            context.ui.json("completions", value)?;
            return Ok(Exit::Done);
        }
        context.ui.stored(&text)?;
        Ok(Exit::Done)
    }
}
