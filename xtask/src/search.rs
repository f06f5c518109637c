//! `grep_search` and `glob` in this process, against the `rg` program on the same files.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use tenon_core::{Args, Cancel, Id, IdSource, NoClient, NoSink, Tool, ToolCtx};
use tenon_testkit::{Value, json};
use tenon_tools::{ShellOptions, Tasks, Workspace, WorkspaceOptions, builtin_tools};

use crate::Failure;

/// A large repository.
const FILES: usize = 50_000;
const FILES_IN_A_FOLDER: usize = 50;
/// One file in so many has the word that is looked for: fewer lines than either side would cut.
const HIT_EVERY: usize = 250;
const ROUNDS: usize = 9;

pub struct Searched {
    /// Medians, in seconds; `None` where there is no `rg`.
    pub grep: (f64, Option<f64>),
    pub glob: (f64, Option<f64>),
}

/// Each search in turn, again and again, the files in the system's cache.
pub fn searches() -> Result<Searched, Failure> {
    let folder = tempfile::tempdir()?;
    fill(folder.path())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let tools = tools(folder.path())?;
    let grep = tool(&tools, "grep_search")?;
    let glob = tool(&tools, "glob")?;
    let call = |tool: &Arc<dyn Tool>, args: Value| -> Result<f64, Failure> {
        let Value::Object(args) = args else { return Err(Failure::other("arguments are an object")) };
        let start = Instant::now();
        let outcome = runtime.block_on(tool.call(ctx(), Args::from(args)));
        let took = start.elapsed().as_secs_f64();
        let wanted = FILES / HIT_EVERY;
        if outcome.error.is_some() || !outcome.content.starts_with(&format!("{wanted} ")) {
            let said: String = outcome.content.chars().take(200).collect();
            return Err(Failure::other(format!("{wanted} results were expected, not: {said}")));
        }
        Ok(took)
    };
    let has_rg = rg(folder.path(), &["--version"]).is_ok();
    if !has_rg {
        eprintln!("`rg` is not installed: the search rows have nothing to be compared with");
    }
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..=ROUNDS {
        times[0].push(call(&grep, json!({"pattern": "needle_[0-9]+"}))?);
        times[2].push(call(&glob, json!({"pattern": "**/*.hit"}))?);
        if has_rg {
            times[1].push(rg(folder.path(), &["--hidden", "--no-require-git", "-n", "needle_[0-9]+"])?);
            times[3].push(rg(folder.path(), &["--hidden", "--no-require-git", "--files", "-g", "**/*.hit"])?);
        }
    }
    // The first round fills the cache.
    let [grep, rg_grep, glob, rg_glob] =
        times.map(|times| times.get(1..).map(|times| crate::bench::median(times.to_vec())));
    Ok(Searched { grep: (grep.unwrap_or(f64::NAN), rg_grep), glob: (glob.unwrap_or(f64::NAN), rg_glob) })
}

/// Source files of a few kilobytes.
fn fill(folder: &Path) -> Result<(), Failure> {
    let line = "let value = compute(first, second) + table[index] * 7; // as before\n";
    for number in 0..FILES {
        let place = folder
            .join(format!("m{:03}", number / FILES_IN_A_FOLDER / 20))
            .join(format!("p{:02}", number / FILES_IN_A_FOLDER % 20));
        if number % FILES_IN_A_FOLDER == 0 {
            fs::create_dir_all(&place)?;
        }
        let mut text = line.repeat(20 + number % 60);
        let is_hit = number % HIT_EVERY == 0;
        if is_hit {
            text.push_str(&format!("needle_{number}\n"));
        }
        fs::write(place.join(format!("f{number}.{}", if is_hit { "hit" } else { "rs" })), text)?;
    }
    fs::write(folder.join(".gitignore"), "target/\n*.log\n")?;
    Ok(())
}

fn tools(folder: &Path) -> Result<Vec<Arc<dyn Tool>>, Failure> {
    let workspace = Workspace::new(WorkspaceOptions::new(folder))?;
    let tasks = Tasks::new(Arc::new(IdSource::new(Id::from_random([1; 16]))));
    Ok(builtin_tools(workspace, ShellOptions::new([]), tasks))
}

fn tool(tools: &[Arc<dyn Tool>], name: &str) -> Result<Arc<dyn Tool>, Failure> {
    let found = tools.iter().find(|tool| tool.spec().name == name);
    found.cloned().ok_or_else(|| Failure::other(format!("there is no `{name}`")))
}

fn ctx() -> ToolCtx {
    ToolCtx {
        call_id: "bench".to_owned(),
        cancel: Cancel::new(),
        client: Arc::new(NoClient),
        sink: Arc::new(NoSink),
        progress: Arc::new(|_| {}),
        tell: Arc::new(|_| {}),
        trace: None,
    }
}

/// The wall time of one `rg` process.
fn rg(folder: &Path, args: &[&str]) -> Result<f64, Failure> {
    let start = Instant::now();
    let output = Command::new("rg").args(args).current_dir(folder).stdin(Stdio::null()).output()?;
    let took = start.elapsed().as_secs_f64();
    if output.status.success() { Ok(took) } else { Err(Failure::other("`rg` failed")) }
}
