//! Layers, places and refusals, on files in a directory that is thrown away.

use super::*;

/// A home and a repository, with files as given.
struct Scene {
    dir: tempfile::TempDir,
}

impl Scene {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [("home/x", ""), ("repo/.git/x", ""), ("repo/deep/x", "")].iter().chain(files) {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { dir }
    }

    fn places(&self) -> ConfigPlaces {
        let user = Some(self.dir.path().join("home/config.toml"));
        ConfigPlaces { user, is_named: false, here: self.dir.path().join("repo/deep") }
    }

    fn load(&self) -> Result<Config, ConfigError> {
        Config::load(&self.places(), &|_| None)
    }

    /// What is said of a wrong file, with the directory left out.
    fn refusal(&self) -> (String, &'static str, Option<String>) {
        let error = self.load().unwrap_err();
        let text = error.to_string().replace(&format!("{}/", self.dir.path().display()), "");
        (text, error.code(), error.help())
    }
}

#[track_caller]
fn check_refused(text: &str, message: &str, help: Option<&str>) {
    let (found, code, found_help) = Scene::new(&[("home/config.toml", text)]).refusal();
    assert_eq!((found.as_str(), code, found_help.as_deref()), (message, "bad-config", help));
}

#[test]
fn a_key_that_nobody_knows_is_refused_with_its_line_and_what_was_meant() {
    check_refused(
        "# mine\n[run]\ncheckpont = \"turn\"\n",
        "home/config.toml:3: there is no setting run.checkpont",
        Some("did you mean run.checkpoint?"),
    );
    check_refused(
        "[template.reviewer]\nmodle = \"m\"\n",
        "home/config.toml:2: there is no setting template.reviewer.modle",
        Some("did you mean template.reviewer.model?"),
    );
    check_refused(
        "[runs]\n\n[runs.deep]\nx = 1\n",
        "home/config.toml:1: there is no setting runs",
        Some("did you mean run?"),
    );
    check_refused(
        "[run]\nzzz = 1\n",
        "home/config.toml:2: there is no setting run.zzz",
        Some("known here: run.checkpoint, run.every_turns"),
    );
}

#[test]
fn a_value_of_another_kind_is_refused_with_what_it_should_be() {
    let turns = "a number from 1 to 10000";
    for (text, found) in
        [("0", "0"), ("10001", "10001"), ("-1", "-1"), ("\"2\"", "\"2\""), ("1.5", "1.5"), ("true", "true")]
    {
        let message = format!("home/config.toml:1: run.every_turns is {found}, not {turns}");
        check_refused(&format!("run.every_turns = {text}\n"), &message, None);
    }
    check_refused(
        "[run]\ncheckpoint = \"never\"\n",
        "home/config.toml:2: run.checkpoint is \"never\", not one of \"turn\", \"tool-result\", \"session-end\"",
        None,
    );
    check_refused(
        "template.x.args = [1]\n",
        "home/config.toml:1: template.x.args is a list, not a list of texts",
        None,
    );
    check_refused("run = 3\n", "home/config.toml:1: run is 3, not a table", None);
    check_refused(
        "[template.\"a b\"]\nmodel = \"m\"\n",
        "home/config.toml:1: template.a b is not a plain name, not a name of letters, digits, - and _",
        None,
    );
    check_refused("[run\n", "home/config.toml:1: unclosed table, expected `]`", None);
}

#[test]
fn nearer_files_and_the_environment_are_laid_over_those_further_away() {
    let scene = Scene::new(&[
        ("home/config.toml", "[run]\nevery_turns = 2\n[template.r]\ndriver = \"codex\"\nmodel = \"user\"\n"),
        ("repo/.enjamb.toml", "[template.r]\nmodel = \"repo\"\n"),
        ("repo/.enjamb.local.toml", "[run]\nevery_turns = 4\n"),
    ]);
    let mut config = scene.load().unwrap();
    assert_eq!(config.run().checkpoint, CheckpointWhen::Turns(4));
    assert_eq!(config.template("r").unwrap().model.as_deref(), Some("repo"));
    let every = config.settings().find(|(key, _)| *key == "run.every_turns").unwrap().1;
    assert!(every.origin.to_string().ends_with("repo/.enjamb.local.toml:2"), "{}", every.origin);
    config.set("run.checkpoint", "--checkpoint", "tool-result").unwrap();
    assert_eq!(config.template("r").unwrap().checkpoint, CheckpointWhen::ToolResult);
    assert_eq!(config.set("run.checkpoint", "--checkpoint", "x").unwrap_err().code(), "bad-config");
    let of_env = |name: &str| (name == "ENJAMB_RUN_EVERY_TURNS").then(|| OsString::from("9"));
    assert_eq!(Config::load(&scene.places(), &of_env).unwrap().run().checkpoint, CheckpointWhen::Turns(9));
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_wrong_is_named() {
    use std::os::unix::ffi::OsStringExt;
    let scene = Scene::new(&[]);
    for (bytes, expected) in [(&b"\xff"[..], "UTF-8"), (b"soon", "a number from 1 to 10000")] {
        let of_env = |name: &str| (name == "ENJAMB_RUN_EVERY_TURNS").then(|| OsString::from_vec(bytes.to_vec()));
        let message = Config::load(&scene.places(), &of_env).unwrap_err().to_string();
        let expected = format!("$ENJAMB_RUN_EVERY_TURNS says what run.every_turns is, and it is not {expected}");
        assert_eq!(message, expected);
    }
}

#[test]
fn a_repository_runs_nothing_until_its_file_as_it_is_was_trusted() {
    let file = ("repo/.enjamb.toml", "[template.r]\ndriver = \"generic\"\ncommand = \"rm\"\nargs = [\"-rf\"]\n");
    let scene = Scene::new(&[file]);
    let refused = |scene: &Scene| scene.load().unwrap().template("r").map_err(|error| (error.code(), error.kind()));
    let denied = Err(("untrusted-config", enjamb_core::ErrorKind::Denied));
    assert_eq!(refused(&scene).map(drop), denied);
    assert_eq!(Trust::grant(&scene.places(), true).unwrap().len(), 1);
    assert_eq!(refused(&scene).unwrap().command.as_deref(), Some("rm"));
    std::fs::write(scene.dir.path().join(file.0), format!("{}\n", file.1)).unwrap();
    assert_eq!(refused(&scene).map(drop), denied, "a changed file is asked for again");
    Trust::grant(&scene.places(), true).unwrap();
    Trust::grant(&scene.places(), false).unwrap();
    assert_eq!(refused(&scene).map(drop), denied);
}

#[test]
fn files_are_looked_for_no_further_up_than_the_repository_begins() {
    let scene = Scene::new(&[(".enjamb.toml", "nonsense = 1\n"), ("home/config.toml", "")]);
    scene.load().unwrap();
    let mut places = scene.places();
    places.here = scene.dir.path().to_owned();
    assert_eq!(Config::load(&places, &|_| None).unwrap_err().code(), "bad-config");
}

#[test]
fn a_file_that_was_named_must_be_there_and_plain() {
    let scene = Scene::new(&[]);
    let mut places = ConfigPlaces { is_named: true, ..scene.places() };
    assert_eq!(Config::load(&places, &|_| None).unwrap_err().kind(), enjamb_core::ErrorKind::NotFound);
    places.user = Some(scene.dir.path().to_owned());
    assert_eq!(Config::load(&places, &|_| None).unwrap_err().code(), "bad-config");
}

#[test]
fn values_of_variables_are_not_shown() {
    let scene = Scene::new(&[("home/config.toml", "[template.r.env]\nAPI_KEY = \"hush\"\n")]);
    let config = scene.load().unwrap();
    let shown: Vec<_> = config.settings().map(|(key, setting)| format!("{key} {}", setting.value)).collect();
    assert!(shown.contains(&"template.r.env API_KEY (values not shown)".to_owned()), "{shown:?}");
    assert_eq!(config.template("r").unwrap_err().code(), "bad-config", "neither driver nor command");
    assert_eq!(config.template("s").unwrap_err().help().as_deref(), Some("there are: r"));
}
