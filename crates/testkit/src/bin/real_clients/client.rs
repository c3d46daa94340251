//! The real runtimes, run for one turn in a home of their own against the model on the loopback.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Problem;
use crate::endpoint::{Endpoint, Reply};

/// After this long a runtime is ended.
const TURN_MAX: Duration = Duration::from_secs(60);

/// What Codex calls the model on the loopback.
pub const PROVIDER: &str = "loopback";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    Claude,
    Codex,
}

impl Client {
    pub const ALL: [Self; 2] = [Self::Claude, Self::Codex];

    /// As `enjamb` names it.
    pub fn runtime(self) -> &'static str {
        match self {
            Self::Claude => "claude-code",
            Self::Codex => "codex",
        }
    }

    pub fn other(self) -> Self {
        match self {
            Self::Claude => Self::Codex,
            Self::Codex => Self::Claude,
        }
    }
}

/// Where a case takes place.
pub struct Stage<'e> {
    pub endpoint: &'e Endpoint,
    pub clients: PathBuf,
    pub enjamb: PathBuf,
    /// Everything that the case writes.
    pub dir: PathBuf,
    /// What is left to look at.
    pub kept: PathBuf,
}

/// A runtime that ended, or was ended, without asking its model what it was to ask: why, in its own words.
#[derive(Debug)]
pub struct Silent(pub String);

impl std::error::Error for Silent {}

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A turn to take.
pub struct Turn<'t> {
    pub client: Client,
    pub resume: Option<&'t str>,
    pub prompt: &'t str,
    pub replies: Vec<Reply>,
}

impl Stage<'_> {
    pub fn home(&self) -> PathBuf {
        self.dir.join("home")
    }

    pub fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// An empty home and an empty directory to work in.
    pub fn clear(&self) -> Result<(), Problem> {
        for dir in [self.home(), self.work(), self.dir.join("store")] {
            match fs::remove_dir_all(&dir) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        for dir in [self.home(), self.work()] {
            fs::create_dir_all(dir)?;
        }
        Ok(())
    }

    /// Removes what runtimes keep, and leaves the store.
    pub fn clear_clients(&self) -> Result<(), Problem> {
        fs::remove_dir_all(self.home())?;
        Ok(fs::create_dir_all(self.home())?)
    }

    /// Takes a turn, and returns the conversation that the runtime sent last of all that hold the prompt.
    pub fn turn(&self, turn: &Turn<'_>) -> Result<Vec<Value>, Problem> {
        self.endpoint.begin(turn.replies.clone());
        let mut command = match turn.client {
            Client::Claude => self.claude(turn),
            Client::Codex => self.codex(turn)?,
        };
        let output = finish(command.spawn()?)?;
        self.sent(turn, &output)
    }

    /// The longest conversation that was sent and holds the prompt.
    fn sent(&self, turn: &Turn<'_>, output: &str) -> Result<Vec<Value>, Problem> {
        let requests = self.endpoint.requests();
        let member = match turn.client {
            Client::Claude => "messages",
            Client::Codex => "input",
        };
        let conversations = requests.iter().filter_map(|body| body[member].as_array());
        let with_prompt = conversations.filter(|items| Value::from((*items).clone()).to_string().contains(turn.prompt));
        // A runtime may ask for a title of the session as well: the conversation is the longest.
        let longest = with_prompt.max_by_key(|items| items.len()).cloned();
        self.keep(longest.as_deref().unwrap_or_default())?;
        longest.ok_or_else(|| Silent(format!("no request holds the prompt; it said: {}", output.trim())).into())
    }

    /// Keeps the last two conversations that were sent, for whoever looks into a failure.
    fn keep(&self, items: &[Value]) -> Result<(), Problem> {
        let (last, before) = (self.kept.join("sent-last.json"), self.kept.join("sent-before.json"));
        if last.exists() {
            fs::rename(&last, before)?;
        }
        Ok(fs::write(last, serde_json::to_vec_pretty(items)?)?)
    }

    fn claude(&self, turn: &Turn<'_>) -> Command {
        let mut command = self.command("claude");
        self.settle_claude(&mut command);
        command.arg("-p");
        if let Some(session) = turn.resume {
            command.args(["--resume", session]);
        }
        command.arg(turn.prompt);
        command
    }

    fn settle_claude(&self, command: &mut Command) {
        command
            .env("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{}", self.endpoint.port))
            .env("ANTHROPIC_API_KEY", "sk-loopback")
            // A long history is to be sent as it is, not summed up first by a model that has only one thing to say.
            .env("DISABLE_AUTO_COMPACT", "1")
            .env("ANTHROPIC_MODEL", "claude-sonnet-4-5[1m]")
            .envs(["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER"].map(|name| (name, "1")))
            .envs(["DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING"].map(|name| (name, "1")));
    }

    fn codex(&self, turn: &Turn<'_>) -> Result<Command, Problem> {
        let mut command = self.command("codex");
        self.settle_codex(&mut command)?;
        command.args(["exec", "--skip-git-repo-check"]);
        if let Some(session) = turn.resume {
            command.args(["resume", session]);
        }
        command.arg(turn.prompt);
        Ok(command)
    }

    fn settle_codex(&self, command: &mut Command) -> Result<(), Problem> {
        let home = self.home().join(".codex");
        fs::create_dir_all(&home)?;
        let config = format!(
            "model = \"gpt-5\"\ntool_output_token_limit = 10000000\nmodel_provider = \"{PROVIDER}\"\n[model_providers.{PROVIDER}]\nname = \"{PROVIDER}\"\n\
             base_url = \"http://127.0.0.1:{}/v1\"\nenv_key = \"LOOPBACK_KEY\"\nwire_api = \"responses\"\n",
            self.endpoint.port
        );
        fs::write(home.join("config.toml"), config)?;
        // There is no network; it tries all the same, and need not wait for a name.
        command.env("LOOPBACK_KEY", "x").env("HTTPS_PROXY", "http://127.0.0.1:1");
        Ok(())
    }

    /// Has `enjamb run` start a runtime for a turn; returns what was sent, and the document that it prints.
    pub fn run(&self, context: Option<&str>, turn: &Turn<'_>) -> Result<(Vec<Value>, Value), Problem> {
        self.endpoint.begin(turn.replies.clone());
        let mut command = Command::new(&self.enjamb);
        self.settle(&mut command);
        command.args(["run", "--json"]).args(context.iter().flat_map(|context| ["--context", context])).arg("--");
        let (program, words): (&str, &[&str]) = match turn.client {
            Client::Claude => ("claude", &["-p"]),
            Client::Codex => ("codex", &["exec", "--skip-git-repo-check"]),
        };
        command.arg(self.clients.join("node_modules/.bin").join(program)).args(words).arg(turn.prompt);
        match turn.client {
            Client::Claude => self.settle_claude(&mut command),
            Client::Codex => self.settle_codex(&mut command)?,
        }
        let output = command.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok((self.sent(turn, "")?, serde_json::from_slice(&output.stdout)?))
    }

    /// A program of the clients', with nothing of the person who runs this.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.clients.join("node_modules/.bin").join(program));
        self.settle(&mut command);
        command
    }

    fn settle(&self, command: &mut Command) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        command
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.home())
            .env("TERM", "dumb")
            .env("ENJAMB_STORE", self.dir.join("store"))
            .current_dir(self.work())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    }

    /// Runs `enjamb`, and returns the document that it prints.
    pub fn enjamb(&self, arguments: &[&str]) -> Result<Value, Problem> {
        self.enjamb_ending(arguments, &[0])
    }

    /// As `enjamb`, for a command that says by its exit code what it found.
    pub fn enjamb_ending(&self, arguments: &[&str], codes: &[i32]) -> Result<Value, Problem> {
        let mut command = Command::new(&self.enjamb);
        self.settle(&mut command);
        let output = command.args(arguments).arg("--json").output()?;
        if !output.status.code().is_some_and(|code| codes.contains(&code)) {
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
            return Err(format!("enjamb {} failed: {}", arguments.join(" "), said.trim()).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Whether this `enjamb` has a command.
    pub fn has_command(&self, name: &str) -> bool {
        let mut command = Command::new(&self.enjamb);
        self.settle(&mut command);
        command.args([name, "--help"]).output().is_ok_and(|output| output.status.success())
    }

    /// Where a runtime looks for a session.
    pub fn place(&self, client: Client, session: &str) -> Result<PathBuf, Problem> {
        let path = match client {
            Client::Claude => {
                let cwd = self.work().canonicalize()?;
                let dash = |found: char| if found.is_ascii_alphanumeric() { found } else { '-' };
                let slug: String = cwd.to_string_lossy().chars().map(dash).collect();
                self.home().join(".claude/projects").join(slug).join(format!("{session}.jsonl"))
            }
            Client::Codex => {
                let name = format!("rollout-2026-01-02T03-04-05-{session}.jsonl");
                self.home().join(".codex/sessions/2026/01/02").join(name)
            }
        };
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
        Ok(path)
    }
}

/// What a runtime said, once it ended by itself or was ended.
fn finish(mut child: Child) -> Result<String, Problem> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let began = Instant::now();
    std::thread::scope(|scope| {
        let said = scope.spawn(|| read_all(stdout));
        let errors = scope.spawn(|| read_all(stderr));
        let mut is_over = false;
        while child.try_wait()?.is_none() {
            if began.elapsed() > TURN_MAX {
                is_over = true;
                child.kill()?;
                child.wait()?;
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let said = format!("{} {}", said.join().unwrap_or_default(), errors.join().unwrap_or_default());
        let hangs = || Silent(format!("no end after {} s; {}", TURN_MAX.as_secs(), said.trim()));
        if is_over { Err(hangs().into()) } else { Ok(said) }
    })
}

fn read_all(source: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // What could be read is enough to tell what happened.
    let _ = source.map(|mut source| source.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}
