//! The agent wrapper: starts an agent from a context, and takes in what it does as it does it.
//!
//! An agent's own transcript is what is kept, from the moment at which its end is worth keeping; of a program that keeps
//! none, what it prints. Nothing rests on this process living: what the agent does is in its transcript or in the run's
//! journal, and whoever opens the store next takes in what a kill left ([`Store::settle_runs`]).

mod heard;
mod journal;
mod keep;
mod plain;
mod process;
mod socket;
mod words;

use std::io::Write;
use std::path::{Path, PathBuf};

use enjamb_core::CommitId;
use enjamb_core::chain::Stop;
use enjamb_formats::Tier;

use crate::{
    Actor, CheckpointWhen, Driver, Expect, Materialize, Result, Resume, Resumed, Runtime, RuntimeHomes, ServiceError,
    Store, Template,
};
use journal::{Facts, Journal};
use keep::Kept;
use process::Process;
use socket::Socket;
use words::{Begin, Line};

pub(crate) use socket::ask as ask_run;

/// Characters of a run's id.
const ID_CHARS: usize = 12;

/// An agent to start.
#[derive(Clone, Debug)]
pub struct Wrap {
    pub template: Option<Template>,
    /// How it is spoken to; told from the program if nobody says.
    pub driver: Option<Driver>,
    /// The command, or what is added to the template's.
    pub words: Vec<String>,
    /// The commit to go on from.
    pub context: Option<CommitId>,
    pub checkpoint: CheckpointWhen,
    /// The least faithful that is accepted, where the context is of another runtime.
    pub tier_min: Tier,
    pub principal: String,
    pub machine: Option<String>,
    pub ticket: Option<String>,
    pub here: PathBuf,
    pub homes: RuntimeHomes,
    pub by: Actor,
}

/// What whoever started it has to do with an agent that runs.
pub struct Attendance<'a> {
    /// Where its output goes.
    pub out: &'a mut dyn Write,
    /// A signal that came for it.
    pub signal: &'a mut dyn FnMut() -> Option<i32>,
    /// Told what should be known.
    pub note: &'a mut dyn FnMut(&str),
}

/// A run that is over.
#[derive(Clone, Debug)]
pub struct Wrapped {
    /// The ref that names its last commit.
    pub reference: String,
    pub session: Option<String>,
    pub parent: Option<CommitId>,
    pub tip: Option<CommitId>,
    pub commits: u64,
    /// As a shell tells it: 128 and the signal, if one ended it.
    pub exit: u8,
}

impl Store {
    /// Starts an agent and stays with it to its end.
    pub fn wrap(&self, request: &Wrap, attendance: &mut Attendance<'_>) -> Result<Wrapped> {
        let (driver, given) = command(request)?;
        find_program(&given[0], &request.here)?;
        let id: String = self.env.new_id().chars().filter(char::is_ascii_alphanumeric).take(ID_CHARS).collect();
        let resumed = self.planted(request, driver, &given)?;
        let begin = self.beginning(driver, &given, resumed.as_ref());
        let line = words::line(driver, &given, &begin, request.template.as_ref());
        let transcript = transcript(request, driver, &given, &begin, resumed.as_ref());
        let journal = Journal::begin(self.dir(), facts(request, driver, id, &given, transcript))?;
        let started = self.start_agent(request, driver, &line, &journal, resumed.as_ref());
        let process = match started {
            Ok(process) => process,
            Err(error) => {
                journal.end()?;
                return Err(error);
            }
        };
        process.attend(self, journal, request, attendance)
    }

    /// The context as a session that the runtime loads.
    fn planted(&self, request: &Wrap, driver: Driver, given: &[String]) -> Result<Option<Resumed>> {
        let Some(tip) = request.context else { return Ok(None) };
        let Some(runtime) = Runtime::from_name(driver.as_str()) else { return Ok(None) };
        if words::chosen_session(driver, given).1 {
            let (text, expected) = (given.join(" "), "a command that chooses no session, beside a context");
            return Err(ServiceError::Invalid { what: "command", text, expected });
        }
        let resume = Resume {
            tip,
            runtime: Some(runtime),
            stop: None,
            budget_tokens: None,
            cwd: Some(request.here.clone()),
            here: request.here.clone(),
            tier_min: request.tier_min,
            homes: request.homes.clone(),
            dry_run: false,
            by: request.by.clone(),
        };
        self.resume(&resume).map(Some)
    }

    fn beginning(&self, driver: Driver, given: &[String], resumed: Option<&Resumed>) -> Begin {
        match (resumed, driver) {
            (Some(resumed), _) => Begin::Resume(resumed.session.clone()),
            (None, Driver::ClaudeCode) if !words::chosen_session(driver, given).1 => Begin::Fresh(self.env.new_id()),
            (None, _) => Begin::AsGiven,
        }
    }

    fn start_agent(
        &self,
        request: &Wrap,
        driver: Driver,
        line: &Line,
        journal: &Journal,
        resumed: Option<&Resumed>,
    ) -> Result<Process> {
        let facts = &journal.facts;
        let kept = Kept { tip: request.context, ..Kept::default() };
        let mut environment: Vec<(String, String)> = vec![
            ("ENJAMB_CONTEXT_ID".into(), facts.reference()),
            ("ENJAMB_STORE".into(), absolute(self.dir())),
            ("ENJAMB_PRINCIPAL".into(), request.principal.clone()),
        ];
        if let Some(tip) = request.context {
            self.move_reference(&facts.reference(), Some(tip), Expect::Nothing, &request.by)?;
            if driver == Driver::Generic {
                let (path, format) = self.written_context(tip, journal)?;
                environment.extend([("ENJAMB_CONTEXT_FILE".into(), path), ("ENJAMB_CONTEXT_FORMAT".into(), format)]);
            }
        }
        if let Some(template) = &request.template {
            let told = [("ENJAMB_MODEL", &template.model), ("ENJAMB_SYSTEM_PROMPT", &template.system_prompt)];
            let told = told.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
            environment.extend(told.filter(|_| driver == Driver::Generic));
            environment.extend(template.env.clone());
        }
        let socket = Socket::open();
        let named = socket.as_ref().map(|socket| (socket::VARIABLE.to_owned(), absolute(&socket.path())));
        environment.extend(named);
        let session = resumed.map(|resumed| resumed.session.clone());
        Process::start(request, driver, line, journal, environment, socket, kept, session)
    }

    /// A context for a program that reads it from a file.
    fn written_context(&self, tip: CommitId, journal: &Journal) -> Result<(String, String)> {
        let path = journal.beside("context");
        let failed = |source| ServiceError::File { path: path.clone(), source };
        let mut file = std::fs::File::create(&path).map_err(failed)?;
        let request = Materialize { tip: Some(tip), stop: Stop::Compaction, format: None };
        let made = self.materialize(&request, &mut |bytes| file.write_all(bytes))?;
        Ok((absolute(&path), made.format))
    }
}

/// The driver, and the words that were given.
fn command(request: &Wrap) -> Result<(Driver, Vec<String>)> {
    let mut given = Vec::new();
    if let Some(template) = &request.template {
        let driver = request.driver.unwrap_or(template.driver);
        let program = template.command.clone().or_else(|| words::program_of(driver).map(str::to_owned));
        given.extend(program.into_iter().chain(template.args.iter().cloned()));
    }
    given.extend(request.words.iter().cloned());
    let Some(program) = given.first() else {
        let expected = "a program, after -- or in the template";
        return Err(ServiceError::Invalid { what: "command", text: String::new(), expected });
    };
    let of_template = request.template.as_ref().map(|template| template.driver);
    Ok((request.driver.or(of_template).unwrap_or_else(|| words::driver_of(program)), given))
}

/// Before anything is written: whether there is anything to run.
fn find_program(program: &str, here: &Path) -> Result<()> {
    let is_there = match program.contains('/') {
        true => here.join(program).is_file(),
        false => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
        }
    };
    match is_there {
        true => Ok(()),
        false => Err(ServiceError::Unknown { what: "program", name: program.to_owned() }),
    }
}

/// Where the agent will write, as far as that is known before it runs.
fn transcript(
    request: &Wrap,
    driver: Driver,
    given: &[String],
    begin: &Begin,
    resumed: Option<&Resumed>,
) -> Option<PathBuf> {
    if let Some(resumed) = resumed {
        return Some(resumed.path.clone());
    }
    let session = match begin {
        Begin::Fresh(session) | Begin::Resume(session) => Some(session.clone()),
        Begin::AsGiven => words::chosen_session(driver, given).0,
    };
    let session = session.filter(|_| driver == Driver::ClaudeCode)?;
    Some(request.homes.transcript(Runtime::ClaudeCode, &request.here, &session))
}

fn facts(request: &Wrap, driver: Driver, id: String, given: &[String], transcript: Option<PathBuf>) -> Facts {
    let template = request.template.as_ref().map_or(driver.as_str(), |template| template.name.as_str());
    Facts {
        id,
        driver: driver.as_str().to_owned(),
        template: template.to_owned(),
        principal: request.principal.clone(),
        machine: request.machine.clone(),
        ticket: request.ticket.clone(),
        parent: request.context.map(|id| id.to_string()),
        transcript,
        asked: (driver == Driver::Generic).then(|| format!("$ {}", given.join(" "))),
    }
}

fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
