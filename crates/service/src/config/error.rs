//! What can be wrong with settings: always which file and line, which key, and what was meant perhaps.

use std::path::PathBuf;

use enjamb_core::ErrorKind;

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}:{line}: {detail}", file.display())]
    Syntax { file: PathBuf, line: usize, detail: String },
    #[error("{}:{line}: there is no setting {key}", file.display())]
    UnknownKey { file: PathBuf, line: usize, key: String, help: String },
    #[error("{}:{line}: {key} is {found}, not {expected}", file.display())]
    WrongType { file: PathBuf, line: usize, key: String, expected: String, found: String },
    #[error("{name} says what {key} is, and it is not {expected}")]
    BadText { name: String, key: String, expected: String },
    #[error("{}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{}: {detail}", path.display())]
    NotAFile { path: PathBuf, detail: &'static str },
    #[error("no template {name}")]
    NoTemplate { name: String, known: Vec<String> },
    #[error("template {name}: {} sets {key}, and nobody has said to trust it", file.display())]
    Untrusted { name: String, key: String, file: PathBuf },
    #[error("template {name} says neither driver nor command")]
    NoDriver { name: String },
    #[error("no remote {name}")]
    NoRemote { name: String, known: Vec<String> },
    #[error("there is a remote {name} already")]
    RemoteThere { name: String },
    #[error("remote {name} has no section [remote.{name}] of its own in your settings: {origin} says it")]
    RemoteElsewhere { name: String, origin: String },
    #[error("there is no home directory to keep settings in")]
    NoPlace,
}

impl ConfigError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NoTemplate { .. } | Self::NoRemote { .. } => ErrorKind::NotFound,
            Self::RemoteThere { .. } => ErrorKind::Conflict,
            Self::Untrusted { .. } => ErrorKind::Denied,
            Self::Unreadable { source, .. } if source.kind() == std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            Self::Unreadable { .. } => ErrorKind::Unavailable,
            Self::Syntax { .. }
            | Self::UnknownKey { .. }
            | Self::WrongType { .. }
            | Self::BadText { .. }
            | Self::NotAFile { .. }
            | Self::NoDriver { .. }
            | Self::RemoteElsewhere { .. }
            | Self::NoPlace => ErrorKind::Invalid,
        }
    }

    pub fn code(&self) -> &'static str {
        match self {
            Self::NoTemplate { .. } => "template-not-found",
            Self::NoRemote { .. } => "remote-not-found",
            Self::RemoteThere { .. } => "remote-exists",
            Self::Untrusted { .. } => "untrusted-config",
            Self::Unreadable { .. } => "file-error",
            _ => "bad-config",
        }
    }

    pub fn help(&self) -> Option<String> {
        match self {
            Self::UnknownKey { help, .. } => Some(help.clone()),
            Self::NoTemplate { known, .. } if known.is_empty() => {
                Some("a section [template.NAME] in the config file makes one".into())
            }
            Self::NoTemplate { known, .. } => Some(format!("there are: {}", known.join(", "))),
            Self::NoRemote { known, .. } if known.is_empty() => Some("enjamb remote add NAME URL    names one".into()),
            Self::NoRemote { known, .. } => Some(format!("there are: {}", known.join(", "))),
            Self::RemoteThere { name } => Some(format!("enjamb remote remove {name}    forgets it")),
            Self::RemoteElsewhere { .. } => Some("take it out of there by hand".into()),
            Self::Untrusted { .. } => Some("enjamb config trust    shows what it would run, and lets it".into()),
            Self::NoDriver { .. } => Some("driver = \"claude-code\", \"codex\" or \"generic\"".into()),
            _ => None,
        }
    }
}
