//! What comes back of what was written.

use std::os::unix::fs::PermissionsExt;
use std::time::SystemTime;

use serde_json::json;
use tenon_core::{Message, Part, Role, Secret, Secrets, TurnJournal, TurnRecord};
use tenon_session::{Recorder, SessionError, SessionFile};

use crate::support::{
    ASKED, Home, answer, answer_of, call, drawn, finished, head, id, recorder, started, text, user, write,
};

fn compacted(messages: &[&str]) -> TurnRecord {
    let messages = messages.iter().map(|text| Message::user(*text)).collect();
    TurnRecord::Compacted { messages, before_tokens: 1000, after_tokens: 10 }
}

#[test]
fn a_conversation_comes_back_as_it_was() {
    let home = Home::new();
    let session = home.create(1);
    write(
        &session,
        [
            user("go"),
            answer(vec![text("Both."), call("a"), call("b")]),
            started("a"),
            started("b"),
            // Side by side: the order of the calls counts.
            finished("b", "two"),
            finished("a", "one"),
            answer(vec![text("Done.")]),
        ],
    );
    drop(session);
    let (session, resumed) = home.open(1);
    assert_eq!(
        drawn(&resumed.history),
        ["user: go", "model: Both., call a, call b", "user: a=one, b=two", "model: Done."]
    );
    assert_eq!((resumed.warnings, resumed.head), (Vec::<String>::new(), Some(head(1))));
    let Part::ToolCall(call) = &resumed.history[1].parts[1] else { panic!("a call") };
    assert_eq!(call.arguments, r#"{"n":1e2}"#);
    // Going on adds to the file and to nothing else.
    write(&session, [user("more")]);
    drop(session);
    assert_eq!(drawn(&home.open(1).1.history).last().unwrap(), "user: more");
}

#[test]
fn calls_without_a_result_are_closed_once_and_honestly() {
    let home = Home::new();
    let session = home.create(1);
    write(
        &session,
        [
            user("go"),
            answer(vec![call("a"), call("b"), call("c")]),
            started("a"),
            started("b"),
            finished("a", "one"),
        ],
    );
    drop(session);
    let closed = ["user: go", "model: call a, call b, call c", "user: a=one, b=Interrupted, c=Not run"];
    let before = std::fs::read(home.file(1)).unwrap();
    // Looking changes nothing.
    assert_eq!(drawn(&tenon_session::read(&home.place(), id(1), ASKED).unwrap().history), closed);
    assert_eq!(std::fs::read(home.file(1)).unwrap(), before);
    let (_, resumed) = home.open(1);
    assert_eq!(drawn(&resumed.history), closed);
    assert_eq!(
        resumed.warnings,
        ["the last run was cut off during `tool`: it may or may not have taken effect, and is not repeated"]
    );
    let (_, again) = home.open(1);
    assert_eq!((drawn(&again.history), again.warnings), (drawn(&resumed.history), Vec::new()));
}

#[test]
fn resuming_starts_at_the_last_compaction() {
    let home = Home::new();
    let session = home.create(1);
    write(&session, [user("old"), answer(vec![text("Old.")]), compacted(&["first summary"]), user("newer")]);
    write(&session, [answer(vec![text("Newer.")]), compacted(&["second summary"]), user("newest")]);
    drop(session);
    assert_eq!(drawn(&home.open(1).1.history), ["user: second summary\n\nnewest"]);
    // A compaction that cannot be read is as good as none, and what it stood for is still there.
    let stored = std::fs::read_to_string(home.file(1)).unwrap();
    std::fs::write(
        home.file(1),
        stored.replace(
            "\"messages\":[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":\"second",
            "\"broken",
        ),
    )
    .unwrap();
    let (_, resumed) = home.open(1);
    assert_eq!(drawn(&resumed.history), ["user: first summary\n\nnewer", "model: Newer.", "user: newest"]);
    assert_eq!(resumed.warnings.len(), 1, "{:?}", resumed.warnings);
    // A fork has what is still sent, and no more.
    let (fork, resumed) = tenon_session::fork(&home.place(), id(1), head(2), ASKED, recorder()).unwrap();
    assert_eq!(drawn(&resumed.history), ["user: first summary\n\nnewer", "model: Newer.", "user: newest"]);
    drop(fork);
    assert!(!std::fs::read_to_string(home.file(2)).unwrap().contains("\"old\""));
    assert_eq!(drawn(&home.open(2).1.history), drawn(&resumed.history));
}

#[test]
fn natives_belong_to_the_model_that_gave_them() {
    let home = Home::new();
    let session = home.create(1);
    let thinking = |word: &str| Part::Thinking { text: word.into(), native: Some(json!({ "n": 1.50 })) };
    write(
        &session,
        [
            user("go"),
            answer_of("m", vec![thinking("ours"), text("a")]),
            answer_of("other", vec![thinking("theirs"), text("b")]),
        ],
    );
    drop(session);
    let shown = drawn(&home.open(1).1.history);
    assert_eq!(shown[1], format!("model: thinking ours {:?}, a", Some(json!({ "n": 1.50 }))));
    assert_eq!(shown[2], "model: thinking theirs None, b");
    let stored = std::fs::read_to_string(home.file(1)).unwrap();
    assert!(
        stored.contains(r#""model":"other","provider":"anthropic""#) && stored.contains("\"n\":1.5"),
        "{stored}"
    );
}

#[test]
fn keys_are_hidden_in_every_place() {
    let home = Home::new();
    let secrets = Secrets::from_iter([Secret::new("sk-0123456789"), Secret::new("a\"quoted\"key")]);
    let recorder = Recorder { secrets, ..recorder() };
    let key = "sk-0123456789 a\"quoted\"key";
    let mut head = head(1);
    head.title = format!("Use {key}");
    let session = SessionFile::create(&home.place(), &head, recorder).unwrap();
    let native = json!({ key: [key] });
    write(
        &session,
        [
            user(key),
            answer(vec![text(key), Part::Thinking { text: key.into(), native: Some(native) }, call("a")]),
            started("a"),
            finished("a", &json!({ "key": key }).to_string()),
            compacted(&[key]),
        ],
    );
    drop(session);
    let stored = std::fs::read_to_string(home.file(1)).unwrap();
    assert!(!stored.contains("sk-0") && !stored.contains("quoted"), "{stored}");
    assert!(stored.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
}

#[test]
fn one_writer_and_an_id_only_once() {
    let home = Home::new();
    let session = home.create(1);
    write(&session, [user("go")]);
    let in_use = |error: SessionError| matches!(error, SessionError::InUse { pid: Some(pid), .. } if pid == std::process::id());
    assert!(in_use(tenon_session::open(&home.place(), &head(1), ASKED, recorder()).map(|_| ()).unwrap_err()));
    assert!(in_use(tenon_session::delete(&home.place(), id(1)).unwrap_err()));
    assert!(matches!(
        SessionFile::create(&home.place(), &head(1), recorder()).map(|_| ()),
        Err(SessionError::Exists { .. })
    ));
    // A copy needs no lock; the original is not touched.
    let before = std::fs::read(home.file(1)).unwrap();
    let (fork, resumed) = tenon_session::fork(&home.place(), id(1), head(2), ASKED, recorder()).unwrap();
    assert_eq!(
        (drawn(&resumed.history), resumed.head.unwrap().forked_from),
        (vec!["user: go".to_owned()], Some(id(1)))
    );
    assert_eq!(std::fs::read(home.file(1)).unwrap(), before);
    drop((session, fork));
    home.open(1);
    assert!(!home.file(1).with_extension("pid").exists());
    tenon_session::delete(&home.place(), id(1)).unwrap();
    assert!(matches!(
        tenon_session::open(&home.place(), &head(1), ASKED, recorder()).map(|_| ()),
        Err(SessionError::Missing { .. })
    ));
}

#[test]
fn a_session_that_cannot_be_written_is_read_all_the_same() {
    let home = Home::new();
    write(&home.create(1), [user("go"), answer(vec![call("a")])]);
    // A folder in the way of the torn end, and a file that must not grow: for root too.
    let whole = std::fs::read(home.file(1)).unwrap();
    std::fs::write(home.file(1), &whole[..whole.len() - 9]).unwrap();
    let chats = home.place().chats();
    std::fs::set_permissions(&chats, std::fs::Permissions::from_mode(0o500)).unwrap();
    let (session, resumed) = home.open(1);
    std::fs::set_permissions(&chats, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(drawn(&resumed.history), ["user: go"]);
    write(&session, [user("more")]);
    // Root is not stopped by a mode; everybody else is told once.
    if let Some(message) = session.degraded() {
        assert!(message.contains("is not recorded"), "{message}");
        assert_eq!(session.degraded(), None);
    }
}

#[test]
fn old_sessions_are_cleaned_once_a_day() {
    let home = Home::new();
    let day = std::time::Duration::from_secs(86_400);
    let now = SystemTime::now();
    for (number, age) in [(1, 10), (2, 100), (3, 100)] {
        write(&home.create(number), [user("go")]);
        let file = std::fs::File::options().append(true).open(home.file(number)).unwrap();
        file.set_modified(now - day * age).unwrap();
        std::fs::create_dir_all(home.place().outputs(id(number))).unwrap();
    }
    let (in_use, _) = home.open(3);
    std::fs::File::options().append(true).open(home.file(3)).unwrap().set_modified(now - day * 100).unwrap();
    let clean = |days, now| tenon_session::clean_once_a_day(home.path(), days, now).unwrap().sessions;
    assert_eq!((clean(0, now), clean(90, now), clean(90, now)), (0, 1, 0));
    assert!(home.file(1).exists() && !home.file(2).exists() && home.file(3).exists());
    assert!(!home.place().outputs(id(2)).exists() && home.place().outputs(id(3)).exists());
    drop(in_use);
    assert_eq!((clean(90, now + day / 2), clean(90, now + day)), (0, 1));
    assert_eq!(clean(5, now + day * 3), 1);
    // Nothing is left, and the folders are gone too.
    assert_eq!(std::fs::read_dir(home.path().join("projects")).unwrap().count(), 1);
}

#[test]
fn roles_survive() {
    let home = Home::new();
    write(&home.create(1), [user("go"), answer(vec![text("x")])]);
    let roles: Vec<Role> = home.open(1).1.history.iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant]);
}
