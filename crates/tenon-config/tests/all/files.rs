//! Which files are read, and which are refused.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use tenon_config::{FileLayer, MemoryUse, ProjectTrust, Sources, Surroundings, load, project_root};
use tenon_core::{ErrorClass, Failure};

use crate::place::Place;

#[test]
fn missing_files_are_fine() {
    let loaded = Place::new().load();
    assert_eq!(loaded.settings, tenon_config::Settings::default());
    assert_eq!((loaded.warnings, loaded.memory), (vec![], vec![]));
}

#[test]
fn broken_settings_are_bad_configuration() {
    let place = Place::new();
    place.user("{\n  \"limits\": { \"turns\": \"many\" },\n  \"retry\": 1\n}");
    let failure = Failure::from(place.try_load().unwrap_err());
    assert_eq!((failure.class, failure.exit_code()), (ErrorClass::Config, 52));
    assert_eq!(
        place.relative(&failure.message),
        "home/.tenon/settings.json:2:24: `limits.turns` must be a whole number, not a string (and 1 more)"
    );
    assert_eq!(failure.hint.as_deref(), Some("`-1` means no limit"));

    place.user("{}");
    place.project("{ \"permissions\": { \"dney\": [] } }");
    let failure = Failure::from(place.try_load().unwrap_err());
    assert_eq!(
        place.relative(&failure.message),
        "work/.tenon/settings.json:1:20: `dney` is not a known key in `permissions`"
    );
    assert_eq!(failure.hint.as_deref(), Some("did you mean `deny`?"));
}

#[test]
fn only_regular_files_of_a_sane_size_are_read() {
    let refused = |prepare: &dyn Fn(&Place), reason: &str| {
        let place = Place::new();
        fs::create_dir_all(place.path("home/.tenon")).unwrap();
        prepare(&place);
        assert_eq!(place.error(), format!("`home/.tenon/settings.json` cannot be read: {reason}"));
    };
    let path = |place: &Place| place.path("home/.tenon/settings.json");
    refused(&|place| fs::create_dir(path(place)).unwrap(), "it is not a regular file");
    refused(
        &|place| assert!(Command::new("mkfifo").arg(path(place)).status().unwrap().success()),
        "it is not a regular file",
    );
    refused(&|place| symlink("/dev/zero", path(place)).unwrap(), "it is not a regular file");
    refused(&|place| place.user(&format!("{{}}{}", " ".repeat(4 * 1024 * 1024))), "it is larger than 4 MiB");
    refused(
        &|place| place.write("home/.tenon/settings.json", b"{\"model\": \"\xff\"}"),
        "it is not UTF-8 (byte 12)",
    );
}

#[test]
fn the_users_file_may_be_a_link_and_the_projects_may_not_lead_out() {
    let place = Place::new();
    place.write("dotfiles/settings.json", r#"{ "model": "m" }"#);
    fs::create_dir_all(place.path("home/.tenon")).unwrap();
    symlink(place.path("dotfiles/settings.json"), place.path("home/.tenon/settings.json")).unwrap();
    assert_eq!(place.load().settings.model.as_deref(), Some("m"));

    fs::create_dir_all(place.path("work/.tenon")).unwrap();
    symlink(place.path("dotfiles/settings.json"), place.path("work/.tenon/settings.json")).unwrap();
    assert_eq!(
        place.error(),
        "`work/.tenon/settings.json` cannot be read: it is a link that leads out of the project"
    );
    fs::remove_file(place.path("work/.tenon/settings.json")).unwrap();
    symlink(place.path("dotfiles/settings.json"), place.path("work/.mcp.json")).unwrap();
    let loaded = place.load();
    assert_eq!(
        place.relative(&loaded.warnings[0]),
        "`work/.mcp.json` cannot be read: it is a link that leads out of the project; it is ignored"
    );
    // Inside the project a link is fine.
    place.write("work/config/tenon.json", r#"{ "permissions": { "deny": ["D"] } }"#);
    symlink("../config/tenon.json", place.path("work/.tenon/settings.json")).unwrap();
    assert_eq!(place.load().settings.permissions.deny, ["D"]);
}

#[test]
fn the_root_is_the_nearest_marked_parent() {
    let mut place = Place::new();
    for folder in ["work/a/b", "work/sub/.tenon", "work/sub/x", "plain/deep", "home/.tenon", "home/notes"] {
        fs::create_dir_all(place.path(folder)).unwrap();
    }
    // A worktree's `.git` is a file.
    place.write("tree/.git", "gitdir: elsewhere");
    fs::create_dir_all(place.path("tree/src")).unwrap();
    for (cwd, root) in [
        ("work", "work"),
        ("work/a/b", "work"),
        ("work/sub/x", "work/sub"),
        ("tree/src", "tree"),
        ("plain/deep", "plain/deep"),
        // The user's own `.tenon` does not make the home folder a project.
        ("home/notes", "home/notes"),
        ("home", "home"),
    ] {
        place.cwd = place.path(cwd);
        assert_eq!(project_root(&place.surroundings()), place.path(root), "{cwd}");
    }
    place.env("TENON_HOME", place.path("elsewhere").to_str().unwrap());
    place.cwd = place.path("home/notes");
    assert_eq!(project_root(&place.surroundings()), place.path("home/notes"));
}

#[test]
fn a_folder_shared_by_everybody_is_no_project_of_those_below() {
    let mut place = Place::new();
    fs::create_dir_all(place.path("shared/.git")).unwrap();
    fs::create_dir_all(place.path("shared/mine")).unwrap();
    fs::set_permissions(place.path("shared"), fs::Permissions::from_mode(0o1777)).unwrap();
    place.cwd = place.path("shared/mine");
    assert_eq!(project_root(&place.surroundings()), place.path("shared/mine"));
    place.cwd = place.path("shared");
    assert_eq!(project_root(&place.surroundings()), place.path("shared"));
}

#[test]
fn the_home_folder_as_a_repository_does_not_read_user_settings_twice() {
    let mut place = Place::new();
    fs::create_dir_all(place.path("home/.git")).unwrap();
    place.user(r#"{ "model": "mine" }"#);
    place.cwd = place.path("home");
    let loaded = place.load();
    assert_eq!(loaded.settings.model.as_deref(), Some("mine"));
    assert_eq!((loaded.warnings, loaded.ignored_from_project), (vec![], vec![]));
}

#[test]
fn tenon_home_moves_user_settings_and_nothing_stands_in_for_a_missing_home() {
    let mut place = Place::new();
    place.user(r#"{ "model": "home" }"#);
    place.write("elsewhere/settings.json", r#"{ "model": "elsewhere" }"#);
    place.env("TENON_HOME", "");
    assert_eq!(place.load().settings.model.as_deref(), Some("home"));
    place.env("TENON_HOME", "../elsewhere");
    assert_eq!(place.load().settings.model.as_deref(), Some("elsewhere"));

    place.project(r#"{ "model": "project" }"#);
    let around = Surroundings::new(Default::default(), None, place.cwd.clone());
    let loaded = load(&around, &Sources::all(), ProjectTrust::Pinned).unwrap();
    assert_eq!(loaded.settings.model, None);
    assert_eq!(loaded.ignored_from_project, ["model"]);
}

#[test]
fn sources_choose_what_is_read() {
    let place = Place::new();
    place.user(r#"{ "permissions": { "deny": ["user"] } }"#);
    place.project(r#"{ "permissions": { "deny": ["project"] } }"#);
    place.write("home/.tenon/AGENTS.md", "of the user");
    place.write("work/AGENTS.md", "of the project");
    let read = |sources: Sources| {
        let loaded = load(&place.surroundings(), &sources, ProjectTrust::Pinned).unwrap();
        let memory: Vec<String> = loaded.memory.into_iter().map(|file| file.text).collect();
        (loaded.settings.permissions.deny.join(" "), memory.join(" "))
    };
    let parsed = |list: &str| read(Sources::parse(list).unwrap());
    let expect = |deny: &str, memory: &str| (deny.to_owned(), memory.to_owned());
    assert_eq!(read(Sources::all()), expect("user project", "of the user of the project"));
    assert_eq!(read(Sources::none()), expect("", ""));
    assert_eq!(parsed("user"), expect("user", "of the user"));
    assert_eq!(parsed("project, local"), expect("project", "of the project"));
    assert_eq!(parsed("user,project"), expect("user project", "of the user of the project"));
    assert_eq!(parsed(""), expect("", ""));
    let safe = Sources { memory: MemoryUse::Skip, files: vec![FileLayer::User], extra: None };
    assert_eq!(read(safe), expect("user", ""));
    assert_eq!(
        Sources::parse("user,team").unwrap_err().to_string(),
        "`--setting-sources` names `team`, but may name `user`, `project` and `local`"
    );
}

#[test]
fn extra_settings_that_do_not_exist_are_an_error_and_inline_ones_name_the_flag() {
    use tenon_config::ExtraSettings;
    let place = Place::new();
    let error = |text: &str| {
        let sources = Sources { extra: Some(ExtraSettings::parse(text, &place.cwd)), ..Sources::all() };
        let error = load(&place.surroundings(), &sources, ProjectTrust::Pinned).unwrap_err();
        error.to_string()
    };
    assert!(error("none.json").ends_with("none.json` cannot be read: there is no such file"));
    assert_eq!(error(r#"{"model": 1}"#), "--settings:1:11: `model` must be a string, not a number");
}

#[test]
fn a_dialect_in_the_environment_is_checked() {
    let mut place = Place::new();
    place.env("TENON_DIALECT", "klingon");
    assert_eq!(
        place.error(),
        "`TENON_DIALECT` is `klingon`, but may be one of `qwen`, `claude`, `gemini`, `openai`"
    );
    place.env("TENON_DIALECT", "gemini");
    assert_eq!(place.load().settings.dialect.as_deref(), Some("gemini"));
}
