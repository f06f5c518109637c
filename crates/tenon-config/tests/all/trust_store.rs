//! `tenon trust`: pinned by content, kept privately, gone when a file changes.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tenon_config::trust::{self, TrustState};

use crate::place::Place;

const ASKS: &str = r#"{ "model": "m", "permissions": { "allow": ["A"], "deny": ["D"] } }"#;

#[test]
fn trust_holds_until_a_file_changes_or_it_is_removed() {
    let place = Place::new();
    place.project(ASKS);
    let around = place.surroundings();
    let shown = trust::show(&around).unwrap();
    assert_eq!(shown.state, TrustState::Untrusted);
    assert_eq!(shown.asks_for, ["model", "permissions.allow"]);
    assert_eq!(shown.project_root, place.path("work"));

    assert_eq!(trust::add(&around).unwrap().state, TrustState::Trusted);
    assert_eq!(trust::show(&around).unwrap().state, TrustState::Trusted);
    assert_eq!(place.load().settings.model.as_deref(), Some("m"));
    assert_eq!(place.load().warnings, [""; 0]);

    place.project(&format!("{ASKS} "));
    assert_eq!(trust::show(&around).unwrap().state, TrustState::Changed);
    let changed = place.load();
    assert_eq!(changed.settings.model, None);
    assert_eq!(changed.settings.permissions.deny, ["D"]);
    assert!(changed.warnings[0].contains("changed since it was trusted"), "{:?}", changed.warnings);

    place.project(ASKS);
    assert_eq!(place.load().settings.model.as_deref(), Some("m"));
    assert_eq!(trust::remove(&around).unwrap().state, TrustState::Trusted);
    assert_eq!(place.load().settings.model, None);
    assert_eq!(trust::remove(&around).unwrap().state, TrustState::Untrusted);
}

#[test]
fn a_new_mcp_file_and_moved_bytes_change_the_pin() {
    let place = Place::new();
    trust::add(&place.surroundings()).unwrap();
    assert_eq!(trust::show(&place.surroundings()).unwrap().state, TrustState::Trusted);
    place.write("work/.mcp.json", "{}");
    assert_eq!(trust::show(&place.surroundings()).unwrap().state, TrustState::Changed);
    trust::add(&place.surroundings()).unwrap();
    // The same bytes in the other file.
    fs::rename(place.path("work/.mcp.json"), place.path("work/moved")).unwrap();
    place.project("{}");
    assert_eq!(trust::show(&place.surroundings()).unwrap().state, TrustState::Changed);
}

#[test]
fn trust_is_per_project() {
    let mut place = Place::new();
    place.project(ASKS);
    trust::add(&place.surroundings()).unwrap();
    place.write("other/.tenon/settings.json", ASKS);
    place.cwd = place.path("other");
    assert_eq!(trust::show(&place.surroundings()).unwrap().state, TrustState::Untrusted);
    // A link to a trusted project is that project.
    std::os::unix::fs::symlink(place.path("work"), place.path("link")).unwrap();
    place.cwd = place.path("").join("link");
    assert_eq!(trust::show(&place.surroundings()).unwrap().state, TrustState::Trusted);
}

#[test]
fn the_store_is_private_and_complete() {
    let place = Place::new();
    place.project(ASKS);
    trust::add(&place.surroundings()).unwrap();
    let mode = |path: &str| fs::metadata(place.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("home/.tenon/trust.json"), 0o600);
    assert_eq!(mode("home/.tenon"), 0o700);
    let left: Vec<_> =
        fs::read_dir(place.path("home/.tenon")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["trust.json"]);
    let text = fs::read_to_string(place.path("home/.tenon/trust.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let pin = json["projects"][place.path("work").to_str().unwrap()]["sha256"].as_str().unwrap().to_owned();
    assert_eq!(pin.len(), 64);
}

#[test]
fn a_store_that_cannot_be_believed_trusts_nobody_and_is_not_overwritten() {
    let place = Place::new();
    place.project(ASKS);
    trust::add(&place.surroundings()).unwrap();
    let path = place.path("home/.tenon/trust.json");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let loaded = place.load();
    assert_eq!(loaded.settings.model, None);
    assert_eq!(
        place.relative(&loaded.warnings[0]),
        "no project is trusted: `home/.tenon/trust.json` cannot be read: others may write to it (`chmod 600` it)"
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&path, "{ broken").unwrap();
    assert_eq!(place.load().settings.model, None);
    assert!(trust::add(&place.surroundings()).is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "{ broken");
}

#[test]
fn a_project_with_broken_settings_cannot_be_trusted() {
    let place = Place::new();
    place.project(r#"{ "model": 1 }"#);
    let error = trust::add(&place.surroundings()).unwrap_err();
    assert_eq!(
        place.relative(&error.to_string()),
        "work/.tenon/settings.json:1:12: `model` must be a string, not a number"
    );
    assert!(!place.path("home/.tenon/trust.json").exists());
}

#[test]
fn without_a_home_there_is_no_trust() {
    let place = Place::new();
    place.project(ASKS);
    let around = tenon_config::Surroundings::new(Default::default(), None, place.cwd.clone());
    assert!(trust::add(&around).is_err());
    let loaded =
        tenon_config::load(&around, &tenon_config::Sources::all(), tenon_config::ProjectTrust::Pinned)
            .unwrap();
    assert_eq!(loaded.settings.model, None);
}
