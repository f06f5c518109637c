//! A bash command line taken apart: every program it would run, every file it plainly touches, and what
//! cannot be told from its text.
//!
//! The grammar is the parser's, with bounds around it; `command_walk.rs` goes through all of what it found.
//! What follows from the parts is decided in `shell_rule.rs` and `permission/shell.rs`.

use std::path::Path;

use brush_parser::Parser;
use brush_parser::ast::{self, AndOr, Command, CompoundCommand, CompoundList};

use crate::bash_builtins as builtins;
use crate::command_walk::Walker;
use crate::command_word::{self, Fill, Word};
use crate::program_options::Hazard;

/// Longer lines are data rather than commands; nobody can say what they do in reasonable time.
const MAX_LENGTH: usize = 256 * 1024;
/// Brackets of all kinds in one line: nesting is bounded by their number, whatever hides in quotes.
const MAX_BRACKETS: usize = 3_000;
/// Enough for as many levels as there can be brackets.
const STACK: usize = 64 * 1024 * 1024;
/// A descriptor or a position in the folder stack has fewer digits.
const MAX_DIGITS: usize = 8;

/// Everything a command line would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub parts: Vec<Part>,
    /// Where it changes to, in order.
    pub moves: Vec<Move>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Runs(Invocation),
    /// It cannot be told what this runs.
    Unknowable(String),
    /// A variable is set that programs may obey.
    Sets(String),
    File(FileUse),
    /// A program goes to this address; `None` if it is not known.
    Fetches(Option<String>),
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Invocation {
    pub program: String,
    pub args: Vec<Word>,
    pub role: Role,
    /// Options and subcommands by which the program runs others, or does its work elsewhere.
    pub hazards: Vec<Hazard>,
}

/// What a program is to the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    /// It only runs another program, which has its own part (`nice`, `timeout`).
    PassesOn,
    /// It changes nothing by itself (`echo`, `true`).
    Harmless,
    /// A file that a shell runs: a rule for the shell allows it, a rule against the file forbids it.
    Script,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileUse {
    pub access: FileAccess,
    pub path: Word,
    pub how: How,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileAccess {
    Read,
    Write,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// `> file`: bash itself does it.
    Redirection,
    /// A word given to a program that is known to do it.
    Operand,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    To(String),
    Anywhere,
}

/// Why a command line was not taken apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("it is too large to be checked")]
    TooLarge,
    #[error("it is nested too deeply to be checked")]
    TooDeep,
    #[error("it holds control characters")]
    ControlCharacters,
    #[error("it is not bash, or bash that cannot be checked")]
    Syntax,
}

/// Takes `text` apart. `home` is what `~` stands for.
pub(crate) fn parse(text: &str, home: Option<&Path>) -> Result<CommandLine, Unreadable> {
    check_size(text)?;
    // A line that moves home is read as if nobody knew where that is.
    let home = home.filter(|_| !text.contains("HOME="));
    on_own_stack(|| {
        let mut walker = Walker::new(Fill { home });
        walker.text(text)?;
        Ok(walker.finish())
    })
}

/// The base name of the program whose exit code the line ends with.
pub(crate) fn last_program(text: &str) -> Option<String> {
    check_size(text).ok()?;
    on_own_stack(|| {
        let program = syntax(text)?;
        Ok(program.complete_commands.last().and_then(last_in_list))
    })
    .ok()
    .flatten()
}

fn last_in_list(list: &CompoundList) -> Option<String> {
    let and_or = &list.0.last()?.0;
    let pipeline = match and_or.additional.last() {
        Some(AndOr::And(pipeline) | AndOr::Or(pipeline)) => pipeline,
        None => &and_or.first,
    };
    match pipeline.seq.last()? {
        Command::Simple(simple) => {
            let word = simple.word_or_name.as_ref()?;
            let word = command_word::read(&word.value, Fill::default(), &mut Vec::new());
            Some(base_name(word.known()?).to_owned())
        }
        Command::Compound(CompoundCommand::BraceGroup(group), _) => last_in_list(&group.list),
        Command::Compound(CompoundCommand::Subshell(subshell), _) => last_in_list(&subshell.list),
        Command::ExtendedTest(..) => Some("[[".to_owned()),
        Command::Compound(..) | Command::Function(_) => None,
    }
}

pub(crate) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// The parser and the walk go down with the nesting of the line, and a parser may fail in ways of its own:
/// both end here, without taking the run with them.
fn on_own_stack<T: Send>(work: impl FnOnce() -> Result<T, Unreadable> + Send) -> Result<T, Unreadable> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("command".to_owned()).stack_size(STACK);
        match thread.spawn_scoped(scope, work) {
            Ok(handle) => handle.join().unwrap_or(Err(Unreadable::Syntax)),
            Err(_) => Err(Unreadable::TooLarge),
        }
    })
}

fn check_size(text: &str) -> Result<(), Unreadable> {
    if text.len() > MAX_LENGTH {
        return Err(Unreadable::TooLarge);
    }
    if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
        return Err(Unreadable::ControlCharacters);
    }
    if text.bytes().filter(|c| matches!(c, b'(' | b'{' | b'`' | b'[')).count() > MAX_BRACKETS
        || text.split_ascii_whitespace().filter(|word| builtins::OPENERS.contains(word)).count()
            > MAX_BRACKETS
    {
        return Err(Unreadable::TooDeep);
    }
    let mut digits = 0_usize;
    let mut after_tilde = false;
    for c in text.chars() {
        match c {
            '0'..='9' => digits += 1,
            '<' | '>' if digits > MAX_DIGITS => return Err(Unreadable::Syntax),
            _ => {
                digits = 0;
                after_tilde = c == '~' || after_tilde && matches!(c, '+' | '-');
            }
        }
        if after_tilde && digits > MAX_DIGITS {
            return Err(Unreadable::Syntax);
        }
    }
    Ok(())
}

/// The text with lines that end in a backslash joined to the next, if there are any. Bash does that before
/// it looks at anything else, except between single quotes; the parser does it later. Both readings count.
pub(crate) fn joined(text: &str) -> Option<String> {
    text.contains("\\\n").then(|| {
        let mut joined = String::with_capacity(text.len());
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match (c, chars.peek()) {
                ('\\', Some('\n')) => {
                    chars.next();
                }
                ('\\', Some(escaped)) => {
                    joined.extend([c, *escaped]);
                    chars.next();
                }
                _ => joined.push(c),
            }
        }
        joined
    })
}

pub(crate) fn syntax(text: &str) -> Result<ast::Program, Unreadable> {
    if is_misread(text) {
        return Err(Unreadable::Syntax);
    }
    Parser::new(text.as_bytes(), &command_word::parser_options())
        .parse_program()
        .map_err(|_| Unreadable::Syntax)
}

/// An expansion in brackets behind a here-document's name, on the same line: the parser takes it apart as if it
/// were outside of its brackets.
fn is_misread(text: &str) -> bool {
    text.match_indices("<<").any(|(at, _)| {
        let line = text[at..]
            .split_inclusive('\n')
            .scan(true, |goes_on, line| std::mem::replace(goes_on, line.ends_with("\\\n")).then_some(line));
        line.flat_map(|line| ["$(", "${", "$["].map(|opening| line.contains(opening))).any(|found| found)
    })
}
