use std::sync::Arc;

use tenon_core::{Args, BoxFut, Tool, ToolCtx, ToolKind, ToolOutcome, ToolSpec};
use tenon_tools::{PermissionOptions, Permissions, Registry, Rule, RuleError, Selection, TakenName};

use crate::support::Bench;

struct Named(Arc<ToolSpec>);

impl Tool for Named {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    fn call(&self, _ctx: ToolCtx, _args: Args) -> BoxFut<'_, ToolOutcome> {
        Box::pin(async { ToolOutcome::ok("") })
    }
}

fn named(name: &str) -> Arc<dyn Tool> {
    let spec = ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: serde_json::json!({}),
        kind: ToolKind::Other,
    };
    Arc::new(Named(Arc::new(spec)))
}

fn denying(rules: &[&str]) -> Permissions {
    let deny = rules.iter().map(|rule| Rule::parse(rule).unwrap()).collect();
    Permissions::new(PermissionOptions { deny, cwd: "/".into(), ..PermissionOptions::default() }).unwrap()
}

const BUILT_IN: &[&str] = &[
    "list_directory",
    "read_file",
    "grep_search",
    "glob",
    "edit",
    "write_file",
    "run_shell_command",
    "monitor",
    "task_stop",
];

#[test]
fn selections() {
    let core = |names: &[&str]| Selection {
        core: Some(Selection::core_tools(names.iter().copied()).unwrap()),
        ..Selection::default()
    };
    let bare = Selection { bare: true, ..Selection::default() };
    let both = Selection { bare: true, ..core(&["Edit", "write_file"]) };
    let mcp_and_contract = ["mcp__a__b", "structured_output"];
    let all: Vec<&str> = BUILT_IN.iter().copied().chain(mcp_and_contract).collect();
    let but = |gone: &[&str]| all.iter().copied().filter(|name| !gone.contains(name)).collect::<Vec<&str>>();
    let table: Vec<(Selection, &[&str], Vec<&str>)> = vec![
        (Selection::default(), &[], all.clone()),
        (
            core(&["Read", "Bash"]),
            &[],
            vec!["read_file", "run_shell_command", "mcp__a__b", "structured_output"],
        ),
        (core(&[]), &[], mcp_and_contract.to_vec()),
        (bare.clone(), &[], vec!["read_file", "edit", "run_shell_command", "mcp__a__b", "structured_output"]),
        (both, &[], vec!["edit", "mcp__a__b", "structured_output"]),
        (bare, &["Bash", "structured_output"], vec!["read_file", "edit", "mcp__a__b"]),
        (Selection::default(), &["Edit"], but(&["edit", "write_file"])),
        (Selection::default(), &["Read"], but(&["read_file", "grep_search", "glob", "list_directory"])),
        (Selection::default(), &["Glob", "write_file"], but(&["glob", "write_file"])),
        (Selection::default(), &["mcp__a"], but(&["mcp__a__b"])),
        (Selection::default(), &["mcp__a__*"], but(&["mcp__a__b"])),
        (Selection::default(), &["mcp__a__c", "mcp__ab", "Bash(rm *)", "Read(.env)"], all.clone()),
    ];
    let bench = Bench::new();
    for (selection, deny, wanted) in table {
        let tools = BUILT_IN
            .iter()
            .map(|name| bench.tool(name))
            .chain(mcp_and_contract.iter().map(|name| named(name)));
        let registry = selection.registry(tools, &denying(deny));
        assert_eq!(registry.names(), wanted, "{selection:?} {deny:?}");
    }
}

#[test]
fn a_list_of_tools_takes_names_only() {
    let narrowed = RuleError::Narrowed("Bash(git *)".to_owned());
    assert_eq!(Selection::core_tools(["Read", "Bash(git *)"]), Err(narrowed));
}

#[test]
fn names_are_found_by_older_names_and_suggested() {
    let bench = Bench::new();
    let name = |wanted: &str| bench.tools.get(wanted).map(|tool| tool.spec().name.clone());
    assert_eq!(name("search_file_content").as_deref(), Some("grep_search"));
    assert_eq!(name("replace").as_deref(), Some("edit"));
    assert_eq!(name("Bash"), None, "names of rules are not names of tools");
    assert_eq!(bench.tools.nearest("readfile"), Some("read_file".to_owned()));
    assert_eq!(bench.tools.nearest("grep"), None);
    assert_eq!(bench.tools.nearest("order_pizza"), None);
}

#[test]
fn a_name_is_given_once() {
    let registry = Registry::new();
    registry.add(named("a")).unwrap();
    assert_eq!(registry.add(named("a")), Err(TakenName("a".to_owned())));
    assert!(registry.with(|spec| spec.name != "a").is_empty());
    assert_eq!(registry.specs().len(), 1);
}

#[test]
fn every_tool_describes_its_parameters() {
    let bench = Bench::new();
    for spec in bench.tools.specs() {
        let properties = spec.parameters["properties"].as_object().unwrap();
        for required in spec.parameters["required"].as_array().unwrap() {
            assert!(properties.contains_key(required.as_str().unwrap()), "{}", spec.name);
        }
        assert!(!spec.description.is_empty());
    }
}
