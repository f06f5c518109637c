//! Skills in files: what is read, what is skipped, and whose count.

use tenon_config::{SkillFile, trust};

use crate::place::Place;

fn skill(description: &str, body: &str) -> String {
    format!("---\nname: lint\ndescription: {description}\n---\n{body}\n")
}

#[test]
fn a_skill_is_front_matter_and_instructions() {
    let place = Place::new();
    place.write("home/.tenon/skills/lint/SKILL.md", skill("Checks style.", "Run the linter."));
    place.write("home/.tenon/skills/lint/rules.txt", "a file of its own");
    place.write("home/.tenon/skills/named-by-folder/SKILL.md", "---\ndescription: D\n---\nBody.");
    place.write("home/.tenon/skills/empty-folder/other.md", "");
    place.write("home/.tenon/skills/stray.md", "not in a folder");
    let loaded = place.load();
    assert_eq!(loaded.warnings, Vec::<String>::new());
    let expected = |name: &str, description: &str, instructions: &str| SkillFile {
        name: name.to_owned(),
        description: description.to_owned(),
        instructions: instructions.to_owned(),
        folder: place.path(&format!("home/.tenon/skills/{name}")),
    };
    assert_eq!(
        loaded.skills,
        [expected("lint", "Checks style.", "Run the linter."), expected("named-by-folder", "D", "Body.")]
    );
}

#[test]
fn what_is_not_understood_is_skipped_and_said() {
    let long = "x".repeat(1_001);
    for (text, why) in [
        ("no front matter", "does not begin with front matter"),
        ("---\nname: a\n---\nBody.", "`description` is missing"),
        ("---\nname: a b\ndescription: D\n---\nBody.", "`a b` is no name for a skill"),
        ("---\nname: ../up\ndescription: D\n---\nBody.", "is no name for a skill"),
        ("---\ndescription: D\n---\n\n", "nothing follows the front matter"),
        ("---\ndescription: [a, b]\n---\nBody.", "line 2: `description` must be a text"),
        ("---\ndescription: D\nmore: {a: 1}\n---\nBody.", "line 3"),
        (&format!("---\ndescription: {long}\n---\nBody."), "longer than 1000 characters"),
        (&"x".repeat(65 * 1024), "larger than 64 KiB"),
    ] {
        let place = Place::new();
        place.write("home/.tenon/skills/bad/SKILL.md", text);
        place.write("home/.tenon/skills/good/SKILL.md", "---\ndescription: D\n---\nBody.");
        let loaded = place.load();
        assert_eq!(loaded.skills.iter().map(|skill| skill.name.as_str()).collect::<Vec<_>>(), ["good"]);
        assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
        assert!(loaded.warnings[0].contains(why), "{why}: {:?}", loaded.warnings);
    }
    let place = Place::new();
    place.write("home/.tenon/skills/a/SKILL.md", skill("D", "First."));
    place.write("home/.tenon/skills/b/SKILL.md", skill("D", "Second."));
    let loaded = place.load();
    assert_eq!(loaded.skills.len(), 1);
    assert!(loaded.warnings[0].contains("another skill is called `lint` too"), "{:?}", loaded.warnings);

    place.write("home/.tenon/skills/b/SKILL.md", "---\ndescription: D\nallowed-tools: Bash\n---\nBody.");
    let loaded = place.load();
    assert_eq!(loaded.skills.len(), 2);
    assert!(loaded.warnings[0].contains("`allowed-tools` of its front matter has no effect"));
}

#[test]
fn a_trusted_projects_skills_come_before_the_users_and_an_untrusted_ones_not_at_all() {
    let place = Place::new();
    place.write("home/.tenon/skills/lint/SKILL.md", skill("D", "of the user"));
    place.write("work/.tenon/skills/lint/SKILL.md", skill("D", "of the project"));
    let bodies =
        |loaded: tenon_config::Loaded| loaded.skills.into_iter().map(|s| s.instructions).collect::<Vec<_>>();
    let untrusted = place.load();
    assert_eq!(untrusted.ignored_from_project, [".tenon/skills"]);
    assert_eq!(bodies(untrusted), ["of the user"]);
    assert_eq!(bodies(place.load_trusted()), ["of the project"]);

    // Trust is for the words that were read.
    assert_eq!(trust::add(&place.surroundings()).unwrap().asks_for, [".tenon/skills"]);
    assert_eq!(bodies(place.load()), ["of the project"]);
    place.write("work/.tenon/skills/lint/SKILL.md", skill("D", "changed"));
    assert_eq!(bodies(place.load()), ["of the user"]);
}
