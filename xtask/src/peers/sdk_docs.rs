//! The examples of the guide to SDKs, run as they are printed: `tenon` is in the `PATH`, and the model says what the
//! comment before the example says.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use tenon_testkit::{Reply, Server, reply};

use crate::Failure;
use crate::peers::workspace;

const GUIDE: &str = "docs/guides/sdks.md";

struct Example {
    /// The model's answers, one in each line: `text WORDS`, `call TOOL JSON`, joined by `&&`.
    answers: String,
    code: String,
    printed: String,
}

/// Runs the examples that import this package, as `file`.
pub fn run(program: &Path, package: &str, file: &Path, binary: &Path) -> Result<(), Failure> {
    let guide = std::fs::read_to_string(workspace::root().join(GUIDE))?;
    let examples = examples(&guide, package);
    if examples.is_empty() {
        return Err(Failure::other(format!("`{GUIDE}` has no example for `{package}`")));
    }
    for example in &examples {
        perform(program, file, binary, example)?;
    }
    println!("ok examples of the guide: {}", examples.len());
    Ok(())
}

fn perform(program: &Path, file: &Path, binary: &Path, example: &Example) -> Result<(), Failure> {
    let folder = tempfile::Builder::new().prefix("tenon-example-").tempdir()?;
    let home = folder.path().join("home");
    let workspace = folder.path().join("workspace");
    std::fs::create_dir_all(&home)?;
    std::fs::create_dir_all(&workspace)?;
    symlink(binary, folder.path().join("tenon"))?;
    let mut path = folder.path().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    std::fs::write(file, &example.code)?;
    let replies = example.answers.lines().enumerate().map(|(number, line)| scripted(number, line));
    let server = Server::start(replies.collect::<Result<Vec<_>, _>>()?);
    let output = Command::new(program)
        .arg(file)
        .current_dir(&workspace)
        .env("PATH", path)
        .env("HOME", &home)
        .envs(tenon_testkit::Wire::Chat.env(&server))
        .stdin(Stdio::null())
        .output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    if output.status.success() && printed == example.printed {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let wanted = &example.printed;
    Err(Failure::other(format!("an example of `{GUIDE}` prints\n{printed}\nand not\n{wanted}\n{said}")))
}

fn scripted(number: usize, line: &str) -> Result<Reply, Failure> {
    line.split(" && ").enumerate().try_fold(reply(), |said, (at, part)| {
        let (kind, rest) = part.split_once(' ').unwrap_or((part, ""));
        match (kind, rest.split_once(' ')) {
            ("text", _) => Ok(said.text(rest)),
            ("call", Some((tool, input))) => Ok(said.call_raw(&format!("call_{number}_{at}"), tool, input)),
            _ => Err(Failure::other(format!("`{part}` is nothing a model can answer"))),
        }
    })
}

/// A comment with the model's answers, a block of code that imports the package, and a block of what it prints.
fn examples(guide: &str, package: &str) -> Vec<Example> {
    let mut examples = Vec::new();
    for part in guide.split("<!-- model\n").skip(1) {
        let Some((answers, rest)) = part.split_once("\n-->") else { continue };
        let mut blocks = rest.split("\n```").skip(1);
        let mut block = |languages: &[&str]| {
            let (language, text) = blocks.next()?.split_once('\n')?;
            // The end of a block is where the next one seems to begin.
            blocks.next();
            languages.contains(&language).then(|| format!("{text}\n"))
        };
        if let (Some(code), Some(printed)) = (block(&["js", "python"]), block(&["text"]))
            && code.contains(&format!("{package}'")) | code.contains(&format!("from {package} "))
        {
            examples.push(Example { answers: answers.to_owned(), code, printed });
        }
    }
    examples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_found_with_their_answers_and_what_they_print() {
        let guide = "Text.\n\n<!-- model\ntext Hi.\n-->\n<!-- norun: x -->\n```js\nimport x from 'it';\nx();\n```\n\n\
                     ```text\nHi.\n```\n\n<!-- model\ntext Ho.\n-->\n```sh\nls\n```\n";
        let found = examples(guide, "it");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].answers, "text Hi.");
        assert_eq!(found[0].code, "import x from 'it';\nx();\n");
        assert_eq!(found[0].printed, "Hi.\n");
        assert!(examples(guide, "other").is_empty());
    }
}
