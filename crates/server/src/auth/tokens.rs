//! The tokens of a store: made, listed, revoked, and looked up when somebody comes with one.
//!
//! They lie in `tokens.json` beside the log, as digests. The file is replaced whole; a server sees that within a second.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};

use super::{Caller, Secret, Via};
use crate::route::Scope;

const FILE: &str = "tokens.json";
const OWNER_FILE: &str = "token";
/// How old what is known of the file may be.
const FRESH: Duration = Duration::from_millis(250);

/// A token to make.
#[derive(Clone, Debug, Default)]
pub struct NewToken {
    /// In whose name it acts; `None` lets its holder say.
    pub principal: Option<String>,
    pub scopes: Vec<Scope>,
    pub namespace: Option<String>,
    pub expires_ms: Option<u64>,
}

/// A token as listings show it, and as it is stored: without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenView {
    pub id: String,
    pub digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    pub scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub created_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("{}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} is not a list of tokens: {detail}", path.display())]
    Unreadable { path: PathBuf, detail: String },
    #[error("no token {0}")]
    Unknown(String),
    #[error("{0:?} fits several tokens: give more of it")]
    Ambiguous(String),
    #[error("{0:?} is no scope: expected read, append or admin")]
    BadScope(String),
    #[error(
        "{0:?} is no name for a namespace: expected 1 to 64 of a-z, 0-9, - and _, beginning with a letter or digit"
    )]
    BadNamespace(String),
}

type Result<T> = std::result::Result<T, TokenError>;

/// The tokens of one store.
#[derive(Debug)]
pub struct Tokens {
    dir: PathBuf,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    looked: Option<Instant>,
    changed: Option<(SystemTime, u64)>,
    all: Vec<TokenView>,
}

impl Scope {
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "read" => Ok(Self::Read),
            "append" => Ok(Self::Append),
            "admin" => Ok(Self::Admin),
            other => Err(TokenError::BadScope(other.to_owned())),
        }
    }
}

/// Whether a text may be the name of a namespace, and so of a directory.
pub fn check_namespace(text: &str) -> Result<()> {
    let fits = (1..=64).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_');
    if fits { Ok(()) } else { Err(TokenError::BadNamespace(text.chars().take(100).collect())) }
}

impl Tokens {
    pub fn of(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), known: Mutex::default() }
    }

    /// Makes a token. The secret is told here, and never again.
    pub fn create(&self, new: NewToken, now_ms: u64) -> Result<(TokenView, Secret)> {
        new.namespace.as_deref().map_or(Ok(()), check_namespace)?;
        let _lock = self.lock()?;
        let mut all = self.read()?;
        let secret = Secret::new().map_err(|source| self.failed(FILE, source))?;
        let digest = secret.digest();
        let view = TokenView {
            // Its own digest again, so that the id tells nothing of the one that is compared.
            id: blake3::hash(digest.as_bytes()).to_hex()[..12].to_owned(),
            digest,
            principal: new.principal,
            scopes: new.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
            namespace: new.namespace,
            created_ms: now_ms,
            expires_ms: new.expires_ms,
        };
        all.push(view.clone());
        self.write(&all)?;
        Ok((view, secret))
    }

    pub fn list(&self) -> Result<Vec<TokenView>> {
        self.read()
    }

    /// Takes a token away, by its id or the beginning of it.
    pub fn revoke(&self, id: &str) -> Result<TokenView> {
        let _lock = self.lock()?;
        let mut all = self.read()?;
        let fits: Vec<_> = all.iter().filter(|token| !id.is_empty() && token.id.starts_with(id)).cloned().collect();
        match fits.as_slice() {
            [] => Err(TokenError::Unknown(id.chars().take(100).collect())),
            [one] => {
                all.retain(|token| token.id != one.id);
                self.write(&all)?;
                Ok(one.clone())
            }
            _ => Err(TokenError::Ambiguous(id.chars().take(100).collect())),
        }
    }

    /// Who holds a secret, if it is one of ours and has not expired.
    pub fn caller(&self, secret: &Secret, now_ms: u64) -> Result<Option<Caller>> {
        let found = holder(&self.fresh(FRESH)?.all, secret, now_ms);
        // It may have been made a moment ago.
        if found.is_some() { Ok(found) } else { Ok(holder(&self.fresh(Duration::ZERO)?.all, secret, now_ms)) }
    }

    /// Whether a token is still good, for answers that go on for long.
    pub fn is_live(&self, id: &str, now_ms: u64) -> bool {
        let is_it = |token: &TokenView| token.id == id && token.expires_ms.is_none_or(|at| at > now_ms);
        self.fresh(FRESH).is_ok_and(|known| known.all.iter().any(is_it))
    }

    /// The token of the store's owner, which lies in a file that only they can read. Made if it is not there.
    pub fn owner(&self) -> Result<Secret> {
        let path = self.dir.join(OWNER_FILE);
        match fs::read_to_string(&path) {
            Ok(text) => {
                close_to_others(&path).map_err(|source| self.failed(OWNER_FILE, source))?;
                let unreadable = || TokenError::Unreadable { path, detail: "remove it, and it is made anew".into() };
                Secret::parse(text.trim()).ok_or_else(unreadable)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let secret = Secret::new().map_err(|source| self.failed(OWNER_FILE, source))?;
                self.replace(OWNER_FILE, format!("{}\n", secret.reveal()).as_bytes())?;
                Ok(secret)
            }
            Err(source) => Err(self.failed(OWNER_FILE, source)),
        }
    }

    /// What is in the file, as of not longer ago than this.
    fn fresh(&self, within: Duration) -> Result<MutexGuard<'_, Known>> {
        let mut known = self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if known.looked.is_some_and(|looked| looked.elapsed() < within) {
            return Ok(known);
        }
        let changed = match fs::metadata(self.dir.join(FILE)) {
            Ok(meta) => Some((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), meta.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(self.failed(FILE, source)),
        };
        if known.looked.is_none() || changed != known.changed {
            known.all = self.read()?;
            known.changed = changed;
        }
        known.looked = Some(Instant::now());
        Ok(known)
    }

    fn read(&self) -> Result<Vec<TokenView>> {
        let path = self.dir.join(FILE);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| TokenError::Unreadable { path, detail: error.to_string() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(self.failed(FILE, source)),
        }
    }

    fn write(&self, all: &[TokenView]) -> Result<()> {
        let json = serde_json::to_vec_pretty(all).expect("tokens are texts and numbers");
        self.replace(FILE, &json)
    }

    /// Held while the file is read and replaced, so that of two who change it none is lost.
    fn lock(&self) -> Result<File> {
        let open =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(self.dir.join("tokens.lock"));
        let locked = open.and_then(|file| file.lock().map(|()| file));
        locked.map_err(|source| self.failed("tokens.lock", source))
    }

    fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let failed = |source| self.failed(name, source);
        let partial = self.dir.join(format!("{name}.partial"));
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&partial).map_err(failed)?;
        close_to_others(&partial).map_err(failed)?;
        file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&partial, self.dir.join(name)).map_err(failed)?;
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(failed)
    }

    fn failed(&self, name: &str, source: io::Error) -> TokenError {
        TokenError::File { path: self.dir.join(name), source }
    }
}

fn holder(all: &[TokenView], secret: &Secret, now_ms: u64) -> Option<Caller> {
    let mut found = None;
    // Every token is compared, whether an earlier one fits or not.
    for token in all {
        if secret.is(&token.digest) && token.expires_ms.is_none_or(|at| at > now_ms) {
            found = Some(token);
        }
    }
    found.map(|token| Caller {
        via: Via::Token(token.id.clone()),
        principal: token.principal.clone(),
        scopes: token.scopes.iter().filter_map(|scope| Scope::parse(scope).ok()).collect(),
        namespace: token.namespace.clone(),
    })
}

fn close_to_others(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn reader() -> NewToken {
        NewToken { principal: Some("bot".into()), scopes: vec![Scope::Read], ..NewToken::default() }
    }

    #[test]
    fn a_token_is_good_until_it_expires_or_is_revoked() {
        let home = tempfile::tempdir().unwrap();
        let tokens = Tokens::of(home.path());
        let (_, forever) = tokens.create(reader(), 1).unwrap();
        let (view, short) = tokens.create(NewToken { expires_ms: Some(100), ..reader() }, 1).unwrap();
        let who = |tokens: &Tokens, secret: &Secret, now| tokens.caller(secret, now).unwrap();
        assert_eq!(who(&tokens, &forever, 99).unwrap().principal.as_deref(), Some("bot"));
        assert!(who(&tokens, &short, 99).is_some() && who(&tokens, &short, 100).is_none());
        assert!(who(&tokens, &Secret::new().unwrap(), 1).is_none());
        tokens.revoke(&view.id[..6]).unwrap();
        assert!(who(&Tokens::of(home.path()), &short, 99).is_none());
        assert!(matches!(tokens.revoke(&view.id), Err(TokenError::Unknown(_))));
    }

    #[test]
    fn no_secret_is_on_disk_but_the_owners_and_no_file_is_open_to_others() {
        let home = tempfile::tempdir().unwrap();
        let tokens = Tokens::of(home.path());
        let (_, secret) = tokens.create(reader(), 1).unwrap();
        let owner = tokens.owner().unwrap();
        assert_eq!(tokens.owner().unwrap(), owner, "it is made once");
        for entry in fs::read_dir(home.path()).unwrap().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap();
            assert!(!text.contains(secret.reveal()), "{entry:?}");
            assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{entry:?}");
        }
    }

    #[test]
    fn namespaces_are_names_of_directories_and_nothing_else() {
        assert!(check_namespace("team-a_2").is_ok());
        for bad in ["", "..", "a/b", "A", "-a", &"a".repeat(65), "a b", "a\0"] {
            assert!(check_namespace(bad).is_err(), "{bad:?}");
        }
    }
}
