//! Agents in files: what is understood, what is refused by line, and whose files count.

use proptest::prelude::*;
use tenon_config::{AgentFile, FieldValue, read_front_matter, trust};
use tenon_core::ApprovalMode;

use crate::place::Place;

fn values(text: &str) -> Result<Vec<(String, FieldValue)>, (usize, String)> {
    match read_front_matter(text) {
        Ok(matter) => Ok(matter
            .map(|matter| {
                matter.fields.into_iter().map(|field| (field.key.to_owned(), field.value)).collect()
            })
            .unwrap_or_default()),
        Err(error) => Err((error.line, error.message)),
    }
}

fn text(text: &str) -> FieldValue {
    FieldValue::Text(text.to_owned())
}

fn list(items: &[&str]) -> FieldValue {
    FieldValue::List(items.iter().map(|item| (*item).to_owned()).collect())
}

#[test]
fn values_are_what_yaml_says_they_are() {
    for (line, expected) in [
        ("k: plain words # a comment", text("plain words")),
        ("k: a#b", text("a#b")),
        ("k: http://host:8/x", text("http://host:8/x")),
        ("k: -1", text("-1")),
        (r#"k: "quoted: \"yes\"\n" # more"#, text("quoted: \"yes\"\n")),
        ("k: 'it''s: here'", text("it's: here")),
        ("k: ''", text("")),
        ("k: [a, 'b, c', \"d\"]", list(&["a", "b, c", "d"])),
        ("k: [ a ]  # one", list(&["a"])),
        ("k: []", list(&[])),
        ("k: [a,]", list(&["a"])),
        ("k:", list(&[])),
        ("k: # nothing yet\n  - a\n# between\n\n- 'b: c'", list(&["a", "b: c"])),
        ("k:\tv\r", text("v")),
    ] {
        assert_eq!(
            values(&format!("---\n{line}\n---\nbody")),
            Ok(vec![("k".to_owned(), expected)]),
            "{line}"
        );
    }
}

#[test]
fn what_is_not_understood_is_refused_in_its_line() {
    for (lines, line, says) in [
        ("k: &anchor x", 2, "needs quotes"),
        ("k: *alias", 2, "needs quotes"),
        ("k: |\n  block", 2, "block values are not understood"),
        ("k: >\n  folded", 2, "block values are not understood"),
        ("k: {a: b}", 2, "needs quotes"),
        ("k: !tag x", 2, "needs quotes"),
        ("k: a: b", 2, "has a colon"),
        ("k:\n  a: b", 3, "nested values"),
        ("k: v\n  more", 3, "nested values"),
        ("k: v\n- item", 3, "under no key"),
        ("- item", 2, "under no key"),
        ("k: [a, b", 2, "not closed by `]`"),
        ("k: [[a]]", 2, "needs quotes"),
        ("k: [a] b", 2, "something follows the list"),
        ("k: 'a' b", 2, "something follows the closing quote"),
        ("k: \"a", 2, "not closed in its line"),
        (r#"k: "\x41""#, 2, "not an escape"),
        ("words", 2, "is not `key: value`"),
        ("k:v", 2, "is not `key: value`"),
        ("a b: c", 2, "is not `key: value`"),
        ("k: 1\nk: 2", 3, "stands in line 2 already"),
    ] {
        let (at, message) = values(&format!("---\n{lines}\n---\n")).unwrap_err();
        assert_eq!((at, message.contains(says)), (line, true), "{lines}: {message}");
    }
    assert_eq!(
        values("---\nk: v\n").unwrap_err(),
        (1, "the front matter is not closed by a second `---`".into())
    );
    assert_eq!(values("no front matter\n---\n"), Ok(vec![]));
}

const REVIEWER: &str = "---\nname: reviewer\ndescription: Reviews a change\ntools: [read_file, Grep]\ndisallowedTools: run_shell_command, edit\nmodel: small\napprovalMode: plan\nmaxTurns: 7\nmaxTime: 5m\n---\n\nLook closely.\n\n---\nStill the body.\n";

#[test]
fn a_definition_in_full() {
    let place = Place::new();
    place.write("home/.tenon/agents/reviewer.md", REVIEWER);
    place.write("home/.tenon/agents/notes.txt", "not an agent");
    let loaded = place.load();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    assert_eq!(
        loaded.agents,
        [AgentFile {
            path: place.path("home/.tenon/agents/reviewer.md"),
            name: "reviewer".into(),
            description: "Reviews a change".into(),
            prompt: "Look closely.\n\n---\nStill the body.".into(),
            tools: Some(vec!["read_file".into(), "Grep".into()]),
            disallowed_tools: vec!["run_shell_command".into(), "edit".into()],
            model: Some("small".into()),
            approval_mode: Some(ApprovalMode::Plan),
            max_turns: Some(7),
            max_time: Some(std::time::Duration::from_secs(300)),
        }]
    );
}

#[test]
fn a_bad_file_is_named_with_its_line_and_the_others_are_used() {
    let place = Place::new();
    let good = "---\nname: good\ndescription: d\nmodel: inherit\ntools: '*'\n---\nbody";
    for (name, text, warning) in [
        ("a.md", "just text", "a.md` defines no agent and is skipped: it does not begin with front matter"),
        (
            "b.md",
            "---\ndescription: d\n---\nbody",
            "b.md` defines no agent and is skipped: `name` is missing",
        ),
        ("c.md", "---\nname: c\n---\nbody", "`description` is missing"),
        ("d.md", "---\nname: d\ndescription: d\n---\n \n", "nothing follows the front matter"),
        (
            "e.md",
            "---\nname: e\ndescription: d\ncolour: red\n---\nb",
            "e.md:4` defines no agent and is skipped: `colour` is not known",
        ),
        ("f.md", "---\nname: f\ndescription: d\ntool: x\n---\nb", "did you mean `tools`?"),
        ("g.md", "---\nname: ../g\ndescription: d\n---\nb", "`../g` is no name for an agent"),
        ("h.md", "---\nname: h\ndescription: d\nmaxTurns: 0\n---\nb", "`maxTurns` is `0`"),
        ("i.md", "---\nname: i\ndescription: d\nmaxTime: soon\n---\nb", "`maxTime`: "),
        ("j.md", "---\nname: j\ndescription: d\napprovalMode: root\n---\nb", "is not an approval mode"),
        ("k.md", "---\nname: k\ndescription: d\ntools: []\n---\nb", "`tools` lists none"),
        ("l.md", "---\nname: [l]\ndescription: d\n---\nb", "`name` is one value"),
        ("m.md", "---\nname: m\ndescription: |\n  d\n---\nb", "m.md:3`"),
    ] {
        place.write(&format!("home/.tenon/agents/{name}"), text);
        place.write("home/.tenon/agents/z.md", good);
        let loaded = place.load();
        assert_eq!(
            loaded.agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>(),
            ["good"],
            "{name}"
        );
        assert_eq!((loaded.agents[0].model.clone(), loaded.agents[0].tools.clone()), (None, None));
        assert_eq!(loaded.warnings.len(), 1, "{name}: {:?}", loaded.warnings);
        assert!(loaded.warnings[0].contains(warning), "{name}: {:?}", loaded.warnings);
        std::fs::remove_file(place.path(&format!("home/.tenon/agents/{name}"))).unwrap();
    }
    place.write("home/.tenon/agents/y.md", [0xff, 0xfe]);
    place.write("home/.tenon/agents/big.md", vec![b'x'; 65 * 1024]);
    place.write("home/.tenon/agents/zz.md", good);
    let warnings = place.load().warnings.join("\n");
    for says in ["it is not UTF-8", "larger than 64 KiB", "names its agent `good` too"] {
        assert!(warnings.contains(says), "{warnings}");
    }
}

#[test]
fn a_trusted_projects_agents_come_before_the_users_and_an_untrusted_ones_not_at_all() {
    let place = Place::new();
    let agent = |body: &str| format!("---\nname: same\ndescription: d\n---\n{body}");
    place.write("home/.tenon/agents/a.md", agent("of the user"));
    place.write("work/.tenon/agents/a.md", agent("of the project"));
    let prompts = |loaded: tenon_config::Loaded| {
        loaded.agents.into_iter().map(|agent| agent.prompt).collect::<Vec<_>>()
    };
    let untrusted = place.load();
    assert_eq!(untrusted.ignored_from_project, [".tenon/agents"]);
    assert_eq!(prompts(untrusted), ["of the user"]);
    assert_eq!(prompts(place.load_trusted()), ["of the project"]);

    // Trust is for the files as they are.
    assert_eq!(trust::add(&place.surroundings()).unwrap().asks_for, [".tenon/agents"]);
    assert_eq!(prompts(place.load()), ["of the project"]);
    place.write("work/.tenon/agents/a.md", agent("changed"));
    assert_eq!(prompts(place.load()), ["of the user"]);
    // A link out of the project is not followed.
    std::fs::remove_file(place.path("work/.tenon/agents/a.md")).unwrap();
    place.write("outside.md", agent("from outside"));
    std::os::unix::fs::symlink(place.path("outside.md"), place.path("work/.tenon/agents/b.md")).unwrap();
    let loaded = place.load_trusted();
    assert!(loaded.warnings.concat().contains("leads out of the project"), "{:?}", loaded.warnings);
    assert_eq!(prompts(loaded), ["of the user"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(500)))]

    /// Whatever stands in a file, reading it ends, and an error names a line of it.
    #[test]
    fn any_text_is_read_or_refused(text in "(---\n)?([a-c:'\"\\[\\]#, -]{0,12}\n){0,6}(---\n)?.{0,20}") {
        if let Err(error) = read_front_matter(&text) {
            prop_assert!(error.line >= 1 && error.line <= text.lines().count());
        }
    }
}
