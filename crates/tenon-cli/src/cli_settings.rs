//! Flags over settings: limits, permissions, formats. Each function answers one question of `run.rs`.

use std::path::PathBuf;
use std::time::Duration;

use tenon_agent::{Cap, Limits};
use tenon_config::{Limit, Loaded, Settings, parse_wall_time};
use tenon_core::ApprovalMode;
use tenon_core::{ErrorClass, Failure};
use tenon_tools::{PermissionOptions, Permissions, Rule, RuleError, Selection, split_rules};

use crate::args::RunArgs;

pub fn limits(args: &RunArgs, settings: &Settings) -> Result<Limits, Failure> {
    let from_settings = &settings.limits;
    Ok(Limits {
        turns: cap(args.max_session_turns, from_settings.turns(), "--max-session-turns")?,
        tool_calls: cap(args.max_tool_calls, from_settings.tool_calls(), "--max-tool-calls")?,
        schema_retries: cap(args.max_schema_retries, from_settings.schema_retries(), "--max-schema-retries")?,
        nudges: args.schema_nudge,
        wall_time: wall_time(args, from_settings.wall_time())?,
        ..Limits::default()
    })
}

fn cap(flag: Option<i64>, setting: Limit<u32>, name: &str) -> Result<Cap, Failure> {
    match flag {
        None => Ok(setting.at_most().map_or(Cap::Unlimited, Cap::AtMost)),
        Some(-1) => Ok(Cap::Unlimited),
        Some(value) => u32::try_from(value).map(Cap::AtMost).map_err(|_| {
            Failure::new(ErrorClass::Usage, format!("`{name} {value}` is not a count"))
                .hint("it takes 0 or more, or -1 for no limit")
        }),
    }
}

fn wall_time(args: &RunArgs, setting: Limit<Duration>) -> Result<Option<Duration>, Failure> {
    match args.max_wall_time.as_deref() {
        None => Ok(setting.at_most()),
        Some(text) => parse_wall_time(text)
            .map(Limit::at_most)
            .map_err(|error| Failure::new(ErrorClass::Usage, format!("`--max-wall-time`: {error}"))),
    }
}

/// The mode that flags name, if they do.
pub fn approval_mode(args: &RunArgs) -> Result<Option<ApprovalMode>, Failure> {
    match (&args.approval_mode, args.yolo) {
        (_, true) => Ok(Some(ApprovalMode::Yolo)),
        (Some(name), _) => ApprovalMode::parse(name)
            .map(Some)
            .map_err(|error| Failure::new(ErrorClass::Usage, error.to_string())),
        (None, _) => Ok(None),
    }
}

pub fn permissions(
    args: &RunArgs,
    loaded: &Loaded,
    cwd: PathBuf,
    home: Option<PathBuf>,
    copy: Option<PathBuf>,
) -> Result<Permissions, Failure> {
    let settings = &loaded.settings.permissions;
    let mode = approval_mode(args)?.unwrap_or_else(|| settings.mode());
    let mut deny = rules(&settings.deny, "`permissions.deny`")?;
    deny.extend(rules(&loaded.settings.tools.exclude, "`tools.exclude`")?);
    deny.extend(rules(&args.exclude_tools, "`--exclude-tools`")?);
    let mut allow = rules(&settings.allow, "`permissions.allow`")?;
    allow.extend(rules(&args.allowed_tools, "`--allowed-tools`")?);
    let options = PermissionOptions {
        mode,
        allow,
        ask: rules(&settings.ask, "`permissions.ask`")?,
        deny,
        cwd,
        project_root: Some(loaded.project_root.clone()),
        home,
        copy,
    };
    Permissions::new(options).map_err(|error| bad_rule(&error, "the permission rules"))
}

/// Which built-in tools are offered.
pub fn selection(args: &RunArgs, settings: &Settings) -> Result<Selection, Failure> {
    let named: Option<Vec<String>> = if args.core_tools.is_empty() {
        settings.tools.core.clone()
    } else {
        Some(args.core_tools.iter().flat_map(|list| split_rules(list)).map(str::to_owned).collect())
    };
    // SDKs say so where they mean all of them.
    let named = named.filter(|names| *names != ["default"]);
    let source = if args.core_tools.is_empty() { "`tools.core`" } else { "`--core-tools`" };
    if let Some(names) = &named {
        rules(names, source)?;
    }
    let core = named
        .map(|names| Selection::core_tools(names.iter().map(String::as_str)))
        .transpose()
        .map_err(|error| bad_rule(&error, source))?;
    Ok(Selection { core, bare: args.bare })
}

fn rules(lists: &[String], source: &str) -> Result<Vec<Rule>, Failure> {
    lists
        .iter()
        .flat_map(|list| split_rules(list))
        .map(|text| {
            let rule = Rule::parse(text).map_err(|error| bad_rule(&error, source))?;
            check_name(&rule, source)?;
            Ok(rule)
        })
        .collect()
}

/// A rule for a tool that does not exist would look like protection and be none.
fn check_name(rule: &Rule, source: &str) -> Result<(), Failure> {
    if rule.names_a_tool() {
        return Ok(());
    }
    let failure = Failure::new(ErrorClass::Config, format!("{source}: there is no tool `{}`", rule.tool()));
    Err(match rule.probably_meant() {
        Some(name) => failure.hint(format!("did you mean `{name}`?")),
        None => failure.hint("`tenon -p … -o stream-json` lists the tools in its first line"),
    })
}

fn bad_rule(error: &RuleError, source: &str) -> Failure {
    Failure::new(ErrorClass::Config, format!("{source}: {error}"))
        .hint("a rule is a tool, or a tool and what it may touch: `write_file`, `Edit(src/**)`")
}
