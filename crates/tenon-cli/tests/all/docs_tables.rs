//! The tables of the user documentation, compared with the program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tenon_core::{ErrorClass, exit_code};
use tenon_testkit::{Server, Value, reply};

use super::docs::read;

#[test]
fn the_command_line_page_lists_every_flag_with_its_default() {
    let mut help = BTreeMap::new();
    for command in [
        &["--help"][..],
        &["trust", "--help"],
        &["sessions", "list", "--help"],
        &["sessions", "show", "--help"],
        &["sessions", "delete", "--help"],
        &["doctor", "--help"],
        &["mcp", "list", "--help"],
        &["mcp", "serve", "--help"],
        &["flow", "run", "--help"],
        &["flow", "validate", "--help"],
        &["flow", "plan", "--help"],
        &["flow", "resume", "--help"],
        &["flow", "list", "--help"],
        &["flow", "show", "--help"],
        &["goal", "--help"],
    ] {
        let run = super::tenon().args(command).run();
        help.extend(flags_of_help(&run.assert_code(0).stdout));
    }
    let page = read("docs/reference/command-line.md");
    let (accepted, refused) = page.split_once("## Refused").expect("a section of refused flags");
    let mut documented = BTreeSet::new();
    for row in rows(accepted) {
        for flag in
            code(&row[0]).iter().flat_map(|code| code.split(' ')).filter(|word| word.starts_with("--"))
        {
            let flag = without_value(flag);
            documented.insert(flag.to_owned());
            if let Some(Some(default)) = help.get(flag) {
                assert!(
                    code(&row[1]).contains(default),
                    "`{flag}`: the default is `{default}`, not {}",
                    row[1]
                );
            }
        }
    }
    assert_eq!(documented, help.into_keys().collect());

    let refused: Vec<String> = rows(refused).iter().flat_map(|row| code(&row[0])).collect();
    assert!(refused.len() > 5, "{refused:?}");
    for flag in refused {
        let run = super::tenon().args(["-p", "hi"]).args(flag.split(' ')).run();
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "`{flag}`: {run}");
    }
}

#[test]
fn the_exit_code_page_lists_every_class() {
    let page = read("docs/reference/exit-codes.md");
    let documented: BTreeSet<(u8, String)> = rows(&page)
        .iter()
        .filter_map(|row| Some((code(&row[0]).first()?.parse().ok()?, code(&row[1]).first()?.clone())))
        .collect();
    let real = ErrorClass::ALL.iter().map(|class| (exit_code(*class), class.name().to_owned()));
    assert_eq!(documented, real.collect());
}

/// Each row is tried: the example is accepted, and its last column says what becomes of it in a project
/// that is not trusted.
#[test]
fn the_settings_page_is_true_of_every_key() {
    let page = read("docs/reference/settings.md");
    let mut keys = BTreeSet::new();
    for row in rows(&page).iter().filter(|row| row.len() == 5 && row[0].starts_with('`')) {
        let [key, example] =
            [&row[0], &row[1]].map(|cell| code(cell).first().cloned().expect("code in the cell"));
        let value: Value = serde_json::from_str(&example).unwrap_or_else(|error| panic!("`{key}`: {error}"));
        let settings = key.rsplit('.').fold(value, |inner, name| {
            let name = if name == "NAME" { "example" } else { name };
            Value::Object([(name.to_owned(), inner)].into_iter().collect())
        });
        let layer = tenon_config::read_settings(
            &settings.to_string(),
            Path::new("page"),
            tenon_config::Expand::Never,
        );
        assert!(layer.errors.is_empty() && layer.warnings.is_empty(), "`{key}`: {layer:?}");
        let (_, ignored) = tenon_config::tighten(tenon_config::Settings::default(), layer.settings);
        assert_eq!(row[3].starts_with("no"), !ignored.is_empty(), "`{key}` from an untrusted project");
        keys.insert(key);
    }
    for key in tenon_config::Timeouts::KEYS {
        assert!(keys.contains(&format!("timeouts.{key}")), "`timeouts.{key}` is not documented");
    }
    assert!(keys.len() > 40, "{keys:?}");
}

#[test]
fn the_tools_page_has_every_tool_with_its_parameters() {
    let skill = "---\ndescription: D\n---\nBody.\n";
    let offered = |args: &[&str]| {
        let server = Server::start([reply().text("Hi.")]);
        let tenon = crate::tenon().home_file("skills/s/SKILL.md", skill);
        tenon.server(&server).args(["-p", "Go."]).args(args).run().assert_code(0);
        let request = server.request(0);
        request.tool_names().iter().map(|name| request.tool(name).clone()).collect::<Vec<Value>>()
    };
    let mut tools = offered(&["--approval-mode", "plan"]);
    tools.extend(offered(&["--settings", r#"{"tools": {"searchAbove": 0}}"#]));
    let told: BTreeMap<String, String> = tools
        .iter()
        .map(|tool| {
            let names = |value: &Value| -> BTreeSet<String> {
                value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
            };
            let required = names(&tool["parameters"]["required"]);
            let properties = tool["parameters"]["properties"].as_object().cloned().unwrap_or_default();
            let shown = properties.keys().map(|key| match required.contains(key) {
                true => format!("**`{key}`**"),
                false => format!("`{key}`"),
            });
            (tool["name"].as_str().unwrap().to_owned(), shown.collect::<Vec<_>>().join(", "))
        })
        .collect();
    let page = read("docs/reference/tools.md");
    let mut documented: BTreeMap<String, String> = rows(&page)
        .iter()
        .filter(|row| row.len() == 4 && row[0].starts_with('`'))
        .map(|row| (code(&row[0])[0].clone(), row[1].clone()))
        .collect();
    // Nobody can answer here, so it is not offered; its parameters are a test of its own crate.
    assert_eq!(documented.remove("ask_user_question").as_deref(), Some("**`questions`**"));
    assert_eq!(documented, told);
}

/// The rows of all tables, without their heads, as cells.
fn rows(text: &str) -> Vec<Vec<String>> {
    let lines: Vec<&str> = text.lines().collect();
    let is_rule = |line: &str| line.starts_with("|--");
    (0..lines.len())
        .filter(|&at| lines[at].starts_with('|') && !is_rule(lines[at]))
        .filter(|&at| !lines.get(at + 1).is_some_and(|next| is_rule(next)))
        .map(|at| {
            let cells = lines[at].replace("\\|", "\u{0}");
            cells.trim_matches('|').split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
        })
        .collect()
}

/// The pieces of code in a cell.
fn code(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Every flag of a help text with the default it names.
fn flags_of_help(help: &str) -> BTreeMap<String, Option<String>> {
    let mut flags = BTreeMap::new();
    let mut current = String::new();
    for line in help.lines().map(str::trim) {
        let is_option = line.starts_with("--") || (line.starts_with('-') && line.get(2..3) == Some(","));
        let named = line.split([' ', ',']).find(|word| word.starts_with("--")).filter(|_| is_option);
        if let Some(flag) = named {
            current = without_value(flag).to_owned();
            flags.insert(current.clone(), None);
        }
        if let Some(default) = line.split("[default: ").nth(1).and_then(|rest| rest.split(']').next()) {
            flags.insert(current.clone(), Some(default.to_owned()));
        }
    }
    flags
}

/// `--sandbox[=MODE]` is `--sandbox`.
fn without_value(flag: &str) -> &str {
    flag.split("[=").next().unwrap_or(flag)
}
