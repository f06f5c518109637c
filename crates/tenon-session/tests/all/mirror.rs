//! A session that somebody else keeps: what they are told is what is in the file, and their copy becomes a file again.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tenon_core::{Outcome, Secrets};
use tenon_session::{Mirror, Recorder, SessionError, SessionFile, adopt};

use crate::support::{ASKED, Home, answer, drawn, finished, head, id, recorder, started, text, user, write};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<String>>>);

impl Kept {
    fn recorder(&self) -> Recorder {
        let kept = self.clone();
        let tell = move |record: &[u8]| {
            kept.0.lock().unwrap().push(String::from_utf8(record.to_vec()).unwrap());
        };
        Recorder { mirror: Some(Mirror::new(tell)), ..recorder() }
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// As a program in another language would put it down: spaces, and the keys from behind.
    fn put_down(&self, folder: &Path) -> PathBuf {
        let rewritten = |line: &String| {
            let fields: serde_json::Map<String, Value> = serde_json::from_str(line).unwrap();
            let fields: serde_json::Map<String, Value> = fields.into_iter().rev().collect();
            format!("{}\n", serde_json::to_string(&fields).unwrap().replace("\":", "\": "))
        };
        let file = folder.join("copy.jsonl");
        std::fs::write(&file, self.lines().iter().map(rewritten).collect::<String>()).unwrap();
        file
    }
}

fn read(file: &Path) -> Vec<String> {
    std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_mirror_is_told_every_record_of_new_resumed_and_copied_sessions() {
    let (home, kept) = (Home::new(), Kept::default());
    let session = SessionFile::create(&home.place(), &head(1), kept.recorder()).unwrap();
    write(&session, [user("go"), answer(vec![text("Both.")]), started("a"), finished("a", "one")]);
    drop(session);
    assert_eq!(kept.lines(), read(&home.file(1)));

    let more = Kept::default();
    let (session, _) = tenon_session::open(&home.place(), &head(1), ASKED, more.recorder()).unwrap();
    write(&session, [user("more")]);
    drop(session);
    assert_eq!(more.lines(), read(&home.file(1))[5..], "only what is new");

    let copied = Kept::default();
    let (session, _) = tenon_session::fork(&home.place(), id(1), head(2), ASKED, copied.recorder()).unwrap();
    write(&session, [user("elsewhere")]);
    drop(session);
    assert_eq!(copied.lines(), read(&home.file(2)), "all of it");
}

#[test]
fn a_copy_becomes_a_session_again() {
    let (home, kept) = (Home::new(), Kept::default());
    let session = SessionFile::create(&home.place(), &head(1), kept.recorder()).unwrap();
    write(&session, [user("go \u{e9}\u{1f44b}"), answer(vec![text("Done.")])]);
    drop(session);
    let other = Home::new();
    let copy = kept.put_down(other.path());
    adopt(&other.place(), id(1), &copy).unwrap();
    // In the words of tenon: a crash can mark it, and it can be scanned.
    assert_eq!(read(&other.file(1))[0], read(&home.file(1))[0]);
    let (session, resumed) = other.open(1);
    assert_eq!(drawn(&resumed.history), ["user: go \u{e9}\u{1f44b}", "model: Done."]);
    assert_eq!(resumed.head, Some(head(1)));
    drop(session);
}

/// However many runs have ended here, of which no mirror is told.
#[test]
fn the_longer_conversation_counts() {
    let (home, kept) = (Home::new(), Kept::default());
    let session = SessionFile::create(&home.place(), &head(1), kept.recorder()).unwrap();
    write(&session, [user("one"), answer(vec![text("One.")])]);
    drop(session);
    let short = kept.put_down(home.path());
    for _ in 0..3 {
        let (session, _) = home.open(1);
        session.finish(&Arc::new(Outcome::failed_early(
            tenon_core::Failure::new(tenon_core::ErrorClass::Input, "no"),
            Vec::new(),
        )));
    }
    let before = read(&home.file(1));
    adopt(&home.place(), id(1), &short).unwrap();
    assert_eq!(read(&home.file(1)), before, "nothing new in it");

    let other = Home::new();
    adopt(&other.place(), id(1), &short).unwrap();
    let (session, _) = tenon_session::open(&other.place(), &head(1), ASKED, kept.recorder()).unwrap();
    write(&session, [user("two"), answer(vec![text("Two.")])]);
    drop(session);
    let long = kept.put_down(other.path());
    adopt(&home.place(), id(1), &long).unwrap();
    assert_eq!(drawn(&home.open(1).1.history).last().unwrap(), "model: Two.");
}

#[test]
fn a_copy_must_be_a_session_of_that_id_and_nobody_may_be_writing_it() {
    let (home, kept) = (Home::new(), Kept::default());
    let session = SessionFile::create(&home.place(), &head(1), kept.recorder()).unwrap();
    write(&session, [user("one")]);
    let copy = kept.put_down(home.path());
    assert!(matches!(adopt(&home.place(), id(2), &copy), Err(SessionError::Unreadable { .. })));
    let in_use = adopt(&home.place(), id(1), &copy);
    assert!(matches!(in_use, Err(SessionError::InUse { .. })), "{in_use:?}");
    drop(session);
    for text in ["", "no json\n", "{\"type\":\"user\"}\n"] {
        std::fs::write(&copy, text).unwrap();
        assert!(matches!(adopt(&home.place(), id(1), &copy), Err(SessionError::Unreadable { .. })), "{text}");
    }
    let missing = home.path().join("nowhere.jsonl");
    assert!(matches!(adopt(&home.place(), id(3), &missing), Err(SessionError::Unreadable { .. })));
    assert!(!home.file(3).exists());
}

#[test]
fn a_mirror_is_told_no_secret() {
    let (home, kept) = (Home::new(), Kept::default());
    let secrets: Secrets = [tenon_core::Secret::new("sk-very-secret")].into_iter().collect();
    let recorder = Recorder { secrets, ..kept.recorder() };
    let session = SessionFile::create(&home.place(), &head(1), recorder).unwrap();
    write(&session, [user("the key is sk-very-secret")]);
    assert!(!kept.lines().concat().contains("sk-very-secret"));
    assert_eq!(kept.lines().len(), 2);
}
