//! Finding sessions among others.

use std::path::Path;

use tenon_session::{Found, Listed, State};

use crate::support::{CWD, Home, answer, head, id, recorder, text, user, write};

fn listed(home: &Home) -> Vec<Listed> {
    tenon_session::list(&home.place(), Path::new(CWD)).unwrap()
}

#[test]
fn thousands_are_listed_and_found() {
    let home = Home::new();
    write(&home.create(1), [user("go"), answer(vec![text("x")])]);
    let line = std::fs::read_to_string(home.file(1)).unwrap();
    for number in 0..2000_u32 {
        let other = tenon_core::Id::from_random(u128::from(number).to_be_bytes());
        let text = line
            .replace(&id(1).to_string(), &other.to_string())
            .replace("Session 1", &format!("Number {number}."));
        std::fs::write(home.place().session_file(other), text).unwrap();
    }
    let sessions = listed(&home);
    assert_eq!(sessions.len(), 2001);
    assert!(
        matches!(tenon_session::find(&sessions, "number 1234."), Found::One(one) if one.title() == "Number 1234.")
    );
    assert!(matches!(tenon_session::find(&sessions, "Number 123"), Found::Several(many) if many.len() == 11));
    assert!(matches!(tenon_session::find(&sessions, &id(1).to_string()), Found::One(_)));
    assert!(matches!(tenon_session::find(&sessions, " "), Found::Nothing));
}

/// Two folders can have one name in the home.
#[test]
fn folders_with_the_same_name_do_not_mix() {
    let home = Home::new();
    write(&home.create(1), [user("go")]);
    let twin = Path::new("/home-someone-project");
    assert_eq!(tenon_session::Place::of(home.path(), twin), home.place());
    let mut other = head(2);
    other.cwd = twin.to_owned();
    write(&tenon_session::SessionFile::create(&home.place(), &other, recorder()).unwrap(), [user("go")]);
    let ids: Vec<_> = listed(&home).iter().map(|session| session.id).collect();
    assert_eq!(ids, [id(1)]);
    assert_eq!(tenon_session::most_recent(&home.place(), twin).unwrap(), Some(id(2)));
    assert_eq!(tenon_session::list_all(home.path()).unwrap().len(), 2);
}

#[test]
fn a_file_without_a_readable_beginning_is_still_listed() {
    let home = Home::new();
    write(&home.create(1), [user("go")]);
    std::fs::write(home.file(1), "torn").unwrap();
    std::fs::write(home.place().chats().join("notes.txt"), "not a session").unwrap();
    let sessions = listed(&home);
    assert_eq!((sessions.len(), sessions[0].id, sessions[0].title()), (1, id(1), ""));
    assert_eq!(sessions[0].state, State::Unfinished);
    tenon_session::delete(&home.place(), id(1)).unwrap();
    assert_eq!(listed(&home).len(), 0);
}
