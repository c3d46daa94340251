//! Putting hooks into a runtime's settings, and taking them out as if they had never been there.
//!
//! What was done is kept in the store (`capture/RUNTIME.json`): which file, what it was before, and the digest of what was
//! written. As long as the file is that, it is put back byte for byte; otherwise only our entries are taken out.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use enjamb_core::Digest;
use serde::{Deserialize, Serialize};

use super::entries::{self, HookCommand};
use crate::{Result, Runtime, ServiceError, Store};

/// A runtime's file for hooks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFile {
    pub runtime: Runtime,
    pub path: PathBuf,
}

/// A change to a runtime's file that was not made yet.
#[derive(Clone, Debug)]
pub struct CapturePlan {
    pub file: HookFile,
    /// What is there; `None` where there is no file.
    pub before: Option<String>,
    /// What is to be there; `None` where there is to be no file.
    pub after: Option<String>,
    /// Entries of ours that there will be.
    pub entries: usize,
    /// Whether the file will be as it was before ours came into it.
    pub restores: bool,
    turns_on: bool,
}

/// Whether a runtime calls us, as far as its settings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HooksFound {
    Off,
    On,
    /// They were put there, and some are no longer.
    Missing,
    /// They are there, and call a program that is not.
    NoProgram,
}

impl HooksFound {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Missing => "missing",
            Self::NoProgram => "no-program",
        }
    }
}

/// What was done to a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Done {
    path: PathBuf,
    /// The copy of what was there; `None` where there was no file.
    backup: Option<PathBuf>,
    /// The digest of what was written, if what was there before had nothing of ours.
    written: Option<String>,
}

impl Done {
    fn backup_text(&self) -> Option<String> {
        self.backup.as_ref().and_then(|path| fs::read_to_string(path).ok())
    }
}

/// The files of the runtimes that have hooks; `variable` answers what the environment says.
pub fn hook_files(home: &Path, variable: &dyn Fn(&str) -> Option<PathBuf>) -> Vec<HookFile> {
    let claude = variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.join(".claude"));
    let codex = variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex"));
    vec![
        HookFile { runtime: Runtime::ClaudeCode, path: claude.join("settings.json") },
        HookFile { runtime: Runtime::Codex, path: codex.join("hooks.json") },
    ]
}

impl HookFile {
    /// Whether the runtime has ever been used here.
    pub fn is_used(&self) -> bool {
        self.path.parent().is_some_and(Path::is_dir)
    }

    fn read(&self) -> Result<Option<String>> {
        match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.failed(source)),
            Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| self.bad("it is not text".to_owned())),
        }
    }

    fn failed(&self, source: io::Error) -> ServiceError {
        ServiceError::File { path: self.path.clone(), source }
    }

    fn bad(&self, detail: String) -> ServiceError {
        ServiceError::BadFile { path: self.path.clone(), detail: format!("{detail}; nothing was changed") }
    }
}

impl CapturePlan {
    pub fn is_nothing(&self) -> bool {
        self.before == self.after
    }
}

impl Store {
    /// What it takes to have a runtime call `command`.
    pub fn plan_capture(&self, file: HookFile, command: &HookCommand) -> Result<CapturePlan> {
        let before = file.read()?;
        let text = before.as_deref().unwrap_or_default();
        let (runtime, entries) = (file.runtime, entries::events(file.runtime).len());
        if entries::is_complete(runtime, text, command) {
            let after = before.clone();
            return Ok(CapturePlan { file, before, after, entries, restores: false, turns_on: true });
        }
        let without = if entries::found(runtime, text).is_empty() {
            text.to_owned()
        } else {
            let backup = self.done_to(&file).and_then(|done| done.backup_text());
            entries::remove(runtime, text, backup.as_deref()).map_err(|why| file.bad(why))?
        };
        let after = entries::add(runtime, &without, command).map_err(|why| file.bad(why))?;
        Ok(CapturePlan { file, before, after: Some(after), entries, restores: false, turns_on: true })
    }

    /// What it takes to have a runtime call us no more.
    pub fn plan_release(&self, file: HookFile) -> Result<CapturePlan> {
        let before = file.read()?;
        let done = self.done_to(&file);
        let backup = done.as_ref().and_then(Done::backup_text);
        let written = done.as_ref().and_then(|done| done.written.as_deref());
        let is_as_written = before.as_deref().is_some_and(|text| written == Some(digest(text).as_str()));
        let had_none = done.as_ref().is_some_and(|done| done.backup.is_none());
        let restores = is_as_written && (had_none || backup.is_some());
        let after = match &before {
            _ if restores => backup,
            None => None,
            Some(text) => {
                let less = entries::remove(file.runtime, text, backup.as_deref());
                Some(less.map_err(|why| file.bad(why))?)
            }
        };
        Ok(CapturePlan { file, before, after, entries: 0, restores, turns_on: false })
    }

    /// Makes a change, unless the file is no longer what it was when the change was planned.
    pub fn apply_capture(&self, plan: &CapturePlan) -> Result<()> {
        let file = &plan.file;
        if file.read()? != plan.before {
            let source = io::Error::new(io::ErrorKind::AlreadyExists, "it was changed meanwhile: try again");
            return Err(file.failed(source));
        }
        if plan.is_nothing() && self.capture_done(file.runtime).is_some() == plan.turns_on {
            return Ok(());
        }
        if plan.turns_on {
            // What was there is kept first: whatever happens next can be undone.
            let done = self.back_up(plan)?;
            self.write_done(file, Some(&done))?;
            return write(plan);
        }
        write(plan)?;
        let backup = self.capture_done(file.runtime).and_then(|done| done.backup);
        self.write_done(file, None)?;
        backup.map_or(Ok(()), |path| remove(&path))
    }

    /// Keeps what was there before ours came into it.
    fn back_up(&self, plan: &CapturePlan) -> Result<Done> {
        let path = &plan.file.path;
        let before = plan.before.as_deref().unwrap_or_default();
        let after = digest(plan.after.as_deref().unwrap_or_default());
        let known = self.done_to(&plan.file);
        let has_ours = !entries::found(plan.file.runtime, before).is_empty();
        match known {
            Some(done) if has_ours => {
                // What was there before is kept already, and still what is to come back if nobody else wrote since.
                let is_as_written = done.written.as_deref() == Some(digest(before).as_str());
                Ok(Done { written: is_as_written.then_some(after), ..done })
            }
            known => {
                let is_kept = plan.before.is_some() && !plan.is_nothing();
                let backup = if is_kept { Some(copy_beside(path, before)?) } else { None };
                if let Some(old) = known.and_then(|done| done.backup) {
                    remove(&old)?;
                }
                Ok(Done { path: path.clone(), backup, written: (!has_ours).then_some(after) })
            }
        }
    }

    /// Whether a runtime calls us.
    pub fn hooks_found(&self, file: &HookFile) -> Result<HooksFound> {
        let text = file.read()?.unwrap_or_default();
        let found = entries::found(file.runtime, &text);
        let is_there = |event: &&str| found.iter().any(|(name, _)| name == event);
        Ok(if found.is_empty() && self.capture_done(file.runtime).is_none() {
            HooksFound::Off
        } else if !entries::events(file.runtime).iter().all(is_there) {
            HooksFound::Missing
        } else if found.iter().any(|(_, words)| !Path::new(&words[0]).is_file()) {
            HooksFound::NoProgram
        } else {
            HooksFound::On
        })
    }

    /// Since when a runtime is to call us.
    pub(super) fn captured_since_ms(&self, runtime: Runtime) -> Option<u64> {
        let modified = fs::metadata(self.done_path(runtime)).and_then(|meta| meta.modified()).ok()?;
        modified.duration_since(std::time::UNIX_EPOCH).ok().map(|since| since.as_millis() as u64)
    }

    /// What was done to this very file.
    fn done_to(&self, file: &HookFile) -> Option<Done> {
        self.capture_done(file.runtime).filter(|done| done.path == file.path)
    }

    fn capture_done(&self, runtime: Runtime) -> Option<Done> {
        let bytes = fs::read(self.done_path(runtime)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    fn write_done(&self, file: &HookFile, done: Option<&Done>) -> Result<()> {
        let path = self.done_path(file.runtime);
        let failed = |source| ServiceError::File { path: path.clone(), source };
        let Some(done) = done else { return remove(&path) };
        let dir = self.dir().join("capture");
        DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(failed)?;
        let bytes = serde_json::to_vec(done).map_err(|error| failed(error.into()))?;
        replace(&path, &bytes, fs::Permissions::from_mode(0o600)).map_err(failed)
    }

    fn done_path(&self, runtime: Runtime) -> PathBuf {
        self.dir().join("capture").join(format!("{}.json", runtime.as_str()))
    }
}

/// Writes a text beside a file, under a name that nothing has yet.
fn copy_beside(path: &Path, text: &str) -> Result<PathBuf> {
    let mut number = 1;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".enjamb-{number}"));
        let copy = PathBuf::from(name);
        let failed = |source| ServiceError::File { path: copy.clone(), source };
        match fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(source) => return Err(failed(source)),
            Ok(mut file) => {
                file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
                fs::set_permissions(&copy, mode_of(path)).map_err(failed)?;
                return Ok(copy);
            }
        }
    }
}

fn digest(text: &str) -> String {
    Digest::of(text.as_bytes()).to_hex()
}

/// Writes what a plan says. A link stays a link: what it leads to is replaced.
fn write(plan: &CapturePlan) -> Result<()> {
    let file = &plan.file;
    let target = fs::canonicalize(&file.path).unwrap_or_else(|_| file.path.clone());
    let Some(after) = &plan.after else { return remove(&target) };
    if let Some(dir) = target.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|source| file.failed(source))?;
    }
    replace(&target, after.as_bytes(), mode_of(&target)).map_err(|source| file.failed(source))
}

/// Replaces a file in one step.
fn replace(path: &Path, bytes: &[u8], mode: fs::Permissions) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(dir)?;
    new.write_all(bytes)?;
    new.as_file().set_permissions(mode)?;
    new.as_file().sync_all()?;
    new.persist(path)?;
    Ok(())
}

fn mode_of(path: &Path) -> fs::Permissions {
    fs::metadata(path).map_or_else(|_| fs::Permissions::from_mode(0o600), |meta| meta.permissions())
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(|source| ServiceError::File { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    use enjamb_testkit::home::Home;

    use super::*;
    use crate::Env;

    struct Bench {
        home: Home,
        store: Store,
        file: HookFile,
        command: HookCommand,
    }

    fn bench(settings: Option<&str>) -> Bench {
        let home = Home::new();
        let store = Store::create(&home.store(), Env::system()).unwrap();
        let program = home.path().join("enjamb");
        fs::write(&program, b"").unwrap();
        let file = hook_files(home.path(), &|_| None).remove(0);
        if let Some(settings) = settings {
            fs::create_dir(file.path.parent().unwrap()).unwrap();
            fs::write(&file.path, settings).unwrap();
        }
        let command = HookCommand { program: program.to_str().unwrap().to_owned(), store: None };
        Bench { home, store, file, command }
    }

    impl Bench {
        fn on(&self) {
            self.store.apply_capture(&self.store.plan_capture(self.file.clone(), &self.command).unwrap()).unwrap();
        }

        fn off(&self) -> bool {
            let plan = self.store.plan_release(self.file.clone()).unwrap();
            self.store.apply_capture(&plan).unwrap();
            plan.restores
        }

        fn text(&self) -> Option<String> {
            fs::read_to_string(&self.file.path).ok()
        }

        fn found(&self) -> HooksFound {
            self.store.hooks_found(&self.file).unwrap()
        }

        fn beside(&self) -> Vec<String> {
            let entries = fs::read_dir(self.file.path.parent().unwrap()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    #[test]
    fn what_was_there_comes_back_byte_for_byte() {
        for settings in [None, Some("{ \"model\" : \"opus\" }"), Some("{\n}"), Some("")] {
            let bench = bench(settings);
            assert_eq!(bench.found(), HooksFound::Off);
            bench.on();
            assert_eq!(bench.found(), HooksFound::On);
            let (once, beside) = (bench.text(), bench.beside());
            bench.on();
            assert_eq!((bench.text(), bench.beside()), (once, beside), "twice is once");
            assert!(bench.off());
            assert_eq!(bench.text().as_deref(), settings);
            assert_eq!(bench.beside().len(), usize::from(settings.is_some()), "{:?}", bench.beside());
            assert_eq!(bench.found(), HooksFound::Off);
            bench.off();
            assert_eq!(bench.text().as_deref(), settings);
        }
    }

    #[test]
    fn in_a_file_that_was_changed_since_only_ours_goes() {
        let bench = bench(Some("{\n  \"model\": \"opus\",\n  \"hooks\": {}\n}\n"));
        bench.on();
        let changed = bench.text().unwrap().replace("opus", "sonnet");
        fs::write(&bench.file.path, &changed).unwrap();
        assert_eq!(bench.found(), HooksFound::On);
        assert!(!bench.off());
        assert_eq!(bench.text().unwrap(), "{\n  \"model\": \"sonnet\",\n  \"hooks\": {}\n}\n");
    }

    #[test]
    fn hooks_that_are_gone_are_missed_and_come_back() {
        let bench = bench(Some("{}"));
        bench.on();
        fs::write(&bench.file.path, "{\"model\":\"opus\"}").unwrap();
        assert_eq!(bench.found(), HooksFound::Missing);
        bench.on();
        assert_eq!(bench.found(), HooksFound::On);
        fs::remove_file(bench.home.path().join("enjamb")).unwrap();
        assert_eq!(bench.found(), HooksFound::NoProgram);
        let elsewhere = HookCommand { program: "/elsewhere/enjamb".into(), store: None };
        let plan = bench.store.plan_capture(bench.file.clone(), &elsewhere).unwrap();
        assert_eq!(plan.after.as_deref().map(|text| text.matches("\"/elsewhere/enjamb\"").count()), Some(7));
        assert_eq!(plan.after.as_deref().map(|text| text.matches("\"hook\"").count()), Some(7), "no old ones are left");
        bench.off();
        assert_eq!(bench.text().unwrap(), "{\"model\":\"opus\"}");
    }

    #[test]
    fn a_program_that_moved_is_named_anew_and_what_was_there_still_comes_back() {
        for touched in [false, true] {
            let mut bench = bench(Some("{ \"hooks\" : { } }"));
            bench.on();
            if touched {
                fs::write(&bench.file.path, bench.text().unwrap() + "\n").unwrap();
            }
            bench.command.program = "/elsewhere/enjamb".into();
            bench.on();
            assert_eq!(bench.beside(), ["settings.json", "settings.json.enjamb-1"], "one copy is kept");
            assert_eq!(bench.off(), !touched);
            let expected = if touched { "{ \"hooks\" : {} }\n" } else { "{ \"hooks\" : { } }" };
            assert_eq!((bench.text().as_deref(), bench.beside().len()), (Some(expected), 1));
        }
    }

    #[test]
    fn a_link_stays_a_link_and_modes_stay() {
        let bench = bench(Some(""));
        let real = bench.home.path().join("dotfiles.json");
        fs::write(&real, "{}").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        fs::remove_file(&bench.file.path).unwrap();
        std::os::unix::fs::symlink(&real, &bench.file.path).unwrap();
        bench.on();
        assert!(fs::symlink_metadata(&bench.file.path).unwrap().is_symlink());
        assert!(fs::read_to_string(&real).unwrap().contains("claude-code"));
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
        bench.off();
        assert_eq!(fs::read_to_string(&real).unwrap(), "{}");
    }

    #[test]
    fn what_is_not_understood_or_changed_meanwhile_is_left_alone() {
        let bench = bench(Some("{ // mine\n}"));
        let refused = bench.store.plan_capture(bench.file.clone(), &bench.command).unwrap_err();
        assert_eq!(refused.code(), "bad-file");
        assert_eq!(bench.text().unwrap(), "{ // mine\n}");
        fs::write(&bench.file.path, "{}").unwrap();
        let plan = bench.store.plan_capture(bench.file.clone(), &bench.command).unwrap();
        fs::write(&bench.file.path, "{ }").unwrap();
        assert!(bench.store.apply_capture(&plan).is_err());
        assert_eq!((bench.text().unwrap().as_str(), bench.beside().len()), ("{ }", 1));
    }
}
