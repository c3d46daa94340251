//! `enjamb discuss`

use clap::Args;
use enjamb_service::{Config, Driver, ServiceError, Template};

use super::Context;
use super::run::{Start, StartArgs};
use crate::failure::{Exit, Result};

#[derive(Args)]
#[command(after_help = "Example:\n  enjamb discuss PAY-12\n  enjamb discuss PAY-12 -- -p 'why is this a finding?'\n\n\
    The ticket's commit is the last one that was made for it or linked to it (enjamb link), and its template says which \
    agent that was. The agent begins with all that it knew then; what is said now is a branch of its own, so two \
    discussions of one ticket know nothing of each other. enjamb link TICKET run/… makes one the ticket's own.")]
pub struct Discuss {
    /// The ticket, as its tracker names it
    ticket: String,
    #[command(flatten)]
    start: StartArgs,
    /// Another template than the recorded one
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// What is added to the agent's command
    #[arg(last = true, value_name = "WORDS")]
    words: Vec<String>,
}

impl Discuss {
    pub fn run(self, context: &mut Context<'_>) -> Result<Exit> {
        let config = self.start.config(context)?;
        let store = context.open()?;
        let understood = store.understood(&self.ticket)?;
        let name = self.template.as_deref().or(understood.commit.template.as_deref()).unwrap_or_default();
        let template = agent(&config, name)?;
        let start = Start {
            template: Some(template),
            context: Some(understood.link.id),
            // What is said now is not what the ticket was found with: another discussion begins where this one did.
            ticket: None,
            words: self.words,
        };
        self.start.start(context, &store, &config, start)
    }
}

/// The template of a name, or the runtime of that name where no template has it.
fn agent(config: &Config, name: &str) -> Result<Template> {
    match (config.template(name), Driver::parse(name)) {
        (Ok(template), _) => Ok(template),
        (Err(error), Some(driver @ (Driver::ClaudeCode | Driver::Codex))) if error.code() == "template-not-found" => {
            Ok(Template {
                name: name.to_owned(),
                driver,
                command: None,
                args: Vec::new(),
                env: Default::default(),
                model: None,
                system_prompt: None,
                checkpoint: config.run().checkpoint,
            })
        }
        (Err(error), _) => Err(ServiceError::from(error).into()),
    }
}
