//! `enjamb man`

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use enjamb_service::ServiceError;
use serde_json::json;

use super::{Cli, Context};
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb man | man -l -\n  enjamb man --dir /usr/local/share/man/man1")]
pub struct Man {
    /// Write a page for each command into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let mut command = Cli::command();
        // What is made when it is asked for is made now: every command has its page.
        command.build();
        let Some(dir) = self.dir else {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            if context.ui.is_json() {
                context.ui.json("man", json!({"page": String::from_utf8_lossy(&page)}))?;
            } else {
                context.ui.stored(&page)?;
            }
            return Ok(Exit::Done);
        };
        let written = fs::create_dir_all(&dir).and_then(|()| clap_mangen::generate_to(command, &dir));
        written.map_err(|source| ServiceError::File { path: dir.clone(), source })?;
        if context.ui.is_json() {
            context.ui.json("man", json!({"path": dir.to_string_lossy()}))?;
        } else {
            context.ui.line(format!("wrote the pages to {}", dir.display()))?;
        }
        Ok(Exit::Done)
    }
}
