//! A bash command line taken apart: every program it would run, every file it plainly touches, and what
//! cannot be told from its text.
//!
//! The grammar is the parser's; this file goes through all of what it found, into substitutions,
//! here-documents and arithmetic, and through the programs that run other programs (`wrappers.rs`).
//! Nothing is left out: what is not understood is reported as such. What follows from it is decided in
//! `shell_rule.rs` and `permission.rs`.

use std::collections::HashSet;
use std::path::Path;

use brush_parser::Parser;
use brush_parser::ast::{
    self, AndOr, AndOrList, Assignment, AssignmentName, AssignmentValue, BinaryPredicate, Command,
    CommandPrefixOrSuffixItem as Item, CompoundCommand, CompoundList, ExtendedTestExpr, IoFileRedirectKind,
    IoFileRedirectTarget, IoRedirect, Pipeline, RedirectList, SimpleCommand, UnaryPredicate,
};

use crate::bash_builtins as builtins;
use crate::command_word::{self, Count, Fill, Inside, Word};
use crate::file_words;
use crate::program_options::{self, Hazard};
use crate::wrappers::{self, Reach, Shell};

/// Longer lines are data rather than commands; nobody can say what they do in reasonable time.
const MAX_LENGTH: usize = 256 * 1024;
/// Brackets of all kinds in one line: nesting is bounded by their number, whatever hides in quotes.
const MAX_BRACKETS: usize = 3_000;
/// Substitutions within substitutions.
const MAX_DEPTH: usize = 24;
/// More programs than a person would write into one line.
const MAX_PARTS: usize = 5_000;
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
fn joined(text: &str) -> Option<String> {
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

fn syntax(text: &str) -> Result<ast::Program, Unreadable> {
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

struct Walker<'a> {
    fill: Fill<'a>,
    line: CommandLine,
    shell: Shell,
    depth: usize,
    /// The text that positions are about.
    source: String,
    /// Within loops and functions, which may run more than once.
    repeats: usize,
    /// Names read by arithmetic, which evaluates what they hold.
    computed: HashSet<String>,
    /// Names that were given something other than a number.
    texts: HashSet<String>,
    /// Something sets variables nobody sees.
    sets_unseen: bool,
    /// Literals that together would be `a[$(…)]`, and a command that would evaluate that.
    opens_subscript: bool,
    holds_substitution: bool,
    evaluates: bool,
    /// Something is expanded twice.
    expands_again: bool,
}

impl<'a> Walker<'a> {
    fn new(fill: Fill<'a>) -> Walker<'a> {
        Walker {
            fill,
            line: CommandLine::default(),
            shell: Shell::Bash,
            source: String::new(),
            depth: 0,
            repeats: 0,
            computed: HashSet::new(),
            texts: HashSet::new(),
            sets_unseen: false,
            opens_subscript: false,
            holds_substitution: false,
            evaluates: false,
            expands_again: false,
        }
    }

    fn finish(mut self) -> CommandLine {
        let evaluated = self.computed.iter().find(|name| self.sets_unseen || self.texts.contains(*name));
        if let Some(name) = evaluated {
            let why = format!("arithmetic on `{name}` runs what the variable holds");
            self.line.parts.push(Part::Unknowable(why));
        }
        if self.opens_subscript && self.holds_substitution && self.evaluates {
            let why = "a subscript may be computed from a text in quotes".to_owned();
            self.line.parts.push(Part::Unknowable(why));
        }
        if self.holds_substitution && self.expands_again {
            let why = "`>&` expands a text in quotes".to_owned();
            self.line.parts.push(Part::Unknowable(why));
        }
        self.line
    }

    fn text(&mut self, text: &str) -> Result<(), Unreadable> {
        if self.depth >= MAX_DEPTH {
            return Err(Unreadable::TooDeep);
        }
        self.depth += 1;
        self.lines(text)?;
        if let Some(joined) = joined(text) {
            self.lines(&joined)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn lines(&mut self, text: &str) -> Result<(), Unreadable> {
        let program = syntax(text)?;
        let outer = std::mem::replace(&mut self.source, text.to_owned());
        for list in &program.complete_commands {
            self.list(list)?;
        }
        self.source = outer;
        Ok(())
    }

    fn list(&mut self, list: &CompoundList) -> Result<(), Unreadable> {
        list.0.iter().try_for_each(|item| self.and_or(&item.0))
    }

    fn and_or(&mut self, and_or: &AndOrList) -> Result<(), Unreadable> {
        self.pipeline(&and_or.first)?;
        and_or.additional.iter().try_for_each(|next| match next {
            AndOr::And(pipeline) | AndOr::Or(pipeline) => self.pipeline(pipeline),
        })
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Result<(), Unreadable> {
        pipeline.seq.iter().try_for_each(|command| self.command(command))
    }

    fn command(&mut self, command: &Command) -> Result<(), Unreadable> {
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Compound(compound, redirects) => {
                self.compound(compound)?;
                self.redirects(redirects.as_ref())
            }
            Command::Function(function) => {
                self.word(&function.fname)?;
                self.repeated(|walker| {
                    walker.compound(&function.body.0)?;
                    walker.redirects(function.body.1.as_ref())
                })
            }
            Command::ExtendedTest(test, redirects) => {
                self.only_bash("[[");
                self.test(&test.expr)?;
                self.redirects(redirects.as_ref())
            }
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) -> Result<(), Unreadable> {
        match compound {
            CompoundCommand::Arithmetic(arithmetic) => {
                self.only_bash("((");
                // The parser takes `( (rm) )`, a shell within a shell, for arithmetic.
                let span = &arithmetic.loc;
                let length = span.end.index.saturating_sub(span.start.index);
                let text: String = self.source.chars().skip(span.start.index).take(length).collect();
                let is_one = text.starts_with("((") && text.ends_with("))");
                if !is_one || brush_parser::arithmetic::parse(&arithmetic.expr.value).is_err() {
                    self.unknowable("`((…))` may be commands in brackets".to_owned());
                }
                self.compute(&arithmetic.expr.value)
            }
            CompoundCommand::ArithmeticForClause(clause) => {
                for expression in
                    [&clause.initializer, &clause.condition, &clause.updater].into_iter().flatten()
                {
                    self.compute(&expression.value)?;
                }
                self.repeated(|walker| walker.list(&clause.body.list))
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(subshell) => self.list(&subshell.list),
            CompoundCommand::ForClause(clause) => {
                let values = self.words(clause.values.iter().flatten())?;
                if !values.iter().all(|value| value.known().is_some_and(is_number)) {
                    self.texts.insert(clause.variable_name.clone());
                }
                self.sets(&clause.variable_name, Scope::Shell);
                self.repeated(|walker| walker.list(&clause.body.list))
            }
            CompoundCommand::CaseClause(clause) => {
                self.word(&clause.value)?;
                for case in &clause.cases {
                    self.words(&case.patterns)?;
                    case.cmd.iter().try_for_each(|list| self.list(list))?;
                }
                Ok(())
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition)?;
                self.list(&clause.then)?;
                for otherwise in clause.elses.iter().flatten() {
                    otherwise.condition.iter().try_for_each(|list| self.list(list))?;
                    self.list(&otherwise.body)?;
                }
                Ok(())
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.repeated(|walker| {
                    walker.list(&clause.0)?;
                    walker.list(&clause.1.list)
                })
            }
            CompoundCommand::Coprocess(coprocess) => self.command(&coprocess.body),
        }
    }

    fn only_bash(&mut self, what: &str) {
        if self.shell == Shell::Other {
            self.unknowable(format!("`{what}` means something else to a shell that is not bash"));
        }
    }

    fn repeated(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Unreadable>) -> Result<(), Unreadable> {
        self.repeats += 1;
        let done = work(self);
        self.repeats -= 1;
        done
    }

    fn test(&mut self, test: &ExtendedTestExpr) -> Result<(), Unreadable> {
        match test {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.test(left)?;
                self.test(right)
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => self.test(inner),
            ExtendedTestExpr::UnaryTest(predicate, word) => {
                if matches!(predicate, UnaryPredicate::ShellVariableIsSetAndAssigned) {
                    self.compute(&word.value)?;
                }
                self.word(word).map(|_| ())
            }
            ExtendedTestExpr::BinaryTest(predicate, left, right) => {
                use BinaryPredicate as B;
                let computes = matches!(
                    predicate,
                    B::ArithmeticEqualTo
                        | B::ArithmeticNotEqualTo
                        | B::ArithmeticLessThan
                        | B::ArithmeticLessThanOrEqualTo
                        | B::ArithmeticGreaterThan
                        | B::ArithmeticGreaterThanOrEqualTo
                );
                for word in [left, right] {
                    if computes {
                        self.compute(&word.value)?;
                    }
                    self.word(word)?;
                }
                Ok(())
            }
        }
    }

    fn simple(&mut self, simple: &SimpleCommand) -> Result<(), Unreadable> {
        let scope = if simple.word_or_name.is_some() { Scope::Programs } else { Scope::Shell };
        let mut words = Vec::new();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                Item::IoRedirect(redirect) => self.redirect(redirect)?,
                Item::AssignmentWord(assignment, _) => self.assignment(assignment, scope)?,
                Item::Word(word) => words.push(self.word(word)?),
                Item::ProcessSubstitution(_, subshell) => self.list(&subshell.list)?,
            }
        }
        if let Some(word) = &simple.word_or_name {
            words.push(self.word(word)?);
        }
        let declares = words.first().and_then(Word::known).is_some_and(builtins::declares);
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            match item {
                Item::IoRedirect(redirect) => self.redirect(redirect)?,
                Item::AssignmentWord(assignment, word) => {
                    if declares {
                        let scope = if builtins::exports(&words) { Scope::Programs } else { Scope::Shell };
                        self.assignment(assignment, scope)?;
                        words.push(Word::Known(name_of(assignment).to_owned()));
                    } else {
                        words.push(self.word(word)?);
                    }
                }
                Item::Word(word) => words.push(self.word(word)?),
                Item::ProcessSubstitution(_, subshell) => {
                    self.list(&subshell.list)?;
                    words.push(Word::Unknown { prefix: "/dev/fd/".to_owned(), count: Count::One });
                }
            }
        }
        if names_a_descriptor(simple) {
            self.unknowable("`{name}>` hides what is a command and what is not".to_owned());
        }
        let has_input = simple.suffix.iter().flat_map(|suffix| &suffix.0).any(|item| {
            matches!(item, Item::IoRedirect(IoRedirect::HereDocument(..) | IoRedirect::HereString(..)))
        });
        self.runs(words, has_input)
    }

    /// A command as words, whoever put them together.
    fn runs(&mut self, words: Vec<Word>, has_input: bool) -> Result<(), Unreadable> {
        let Some((first, args)) = words.split_first() else { return Ok(()) };
        let Some(program) = first.known().filter(|program| !program.is_empty()) else {
            self.unknowable(format!("`{}` stands where a command's name belongs", shown(first)));
            return Ok(());
        };
        if self.line.parts.len() >= MAX_PARTS {
            return Err(Unreadable::TooLarge);
        }
        let name = base_name(program);
        self.builtin(name, args)?;
        let Reach { commands, scripts, file, unknowable, assignments, role } =
            wrappers::reach(name, args, has_input);
        let mut hazards = program_options::hazards(name, args);
        // A wrapper's own words were all understood.
        if role == Role::PassesOn {
            hazards.clear();
        }
        self.line.parts.push(Part::Runs(Invocation {
            program: program.to_owned(),
            args: args.to_vec(),
            role,
            hazards,
        }));
        self.line.parts.extend(file_words::of(name, args));
        unknowable.into_iter().for_each(|why| self.unknowable(why));
        if let Some((Word::Known(program), args)) = file.as_deref().and_then(<[Word]>::split_first) {
            let (program, args) = (program.clone(), args.to_vec());
            self.line.parts.push(Part::Runs(Invocation {
                program,
                args,
                role: Role::Script,
                hazards: Vec::new(),
            }));
        }
        for variable in &assignments {
            self.sets(variable, Scope::Programs);
        }
        for command in commands {
            self.descend(|walker| walker.runs(command, false))?;
        }
        for script in scripts {
            match script.text.known() {
                Some(text) => {
                    let outer = std::mem::replace(&mut self.shell, script.shell);
                    self.text(text)?;
                    self.shell = outer;
                }
                None => self.unknowable(format!("`{name}` runs a text that is not known")),
            }
        }
        Ok(())
    }

    fn descend(&mut self, work: impl FnOnce(&mut Self) -> Result<(), Unreadable>) -> Result<(), Unreadable> {
        if self.depth >= MAX_DEPTH {
            return Err(Unreadable::TooDeep);
        }
        self.depth += 1;
        let done = work(self);
        self.depth -= 1;
        done
    }

    /// What bash does itself.
    fn builtin(&mut self, name: &str, args: &[Word]) -> Result<(), Unreadable> {
        if let Some(why) = builtins::unknowable(name, args) {
            self.unknowable(why);
        }
        self.evaluates |= builtins::evaluates(name, args);
        if builtins::sets_unseen(name, args) {
            self.sets_unseen = true;
        }
        if name == "let" {
            for arg in args {
                match arg.known() {
                    Some(text) => self.compute(text)?,
                    None => self.unknowable("`let` computes a text that is not known".to_owned()),
                }
            }
        }
        for variable in builtins::named_variables(name, args) {
            let exported = name == "export";
            self.sets(&variable, if exported { Scope::Programs } else { Scope::Shell });
        }
        if builtins::changes_folder(name) {
            let target = builtins::folder(args);
            self.line.moves.push(match target {
                Some(path) if self.repeats == 0 || path.starts_with('/') => Move::To(path),
                _ => Move::Anywhere,
            });
        }
        Ok(())
    }

    fn assignment(&mut self, assignment: &Assignment, scope: Scope) -> Result<(), Unreadable> {
        let name = name_of(assignment).to_owned();
        if let AssignmentName::ArrayElementName(_, index) = &assignment.name {
            self.compute(index)?;
        }
        match &assignment.value {
            AssignmentValue::Scalar(word) => {
                let value = self.word(word)?;
                let computed = word.value.starts_with("$((") || word.value.starts_with("${#");
                if !computed && !value.known().is_some_and(is_number) {
                    self.texts.insert(name.clone());
                }
            }
            AssignmentValue::Array(elements) => {
                for (index, element) in elements {
                    index.iter().try_for_each(|index| self.compute(&index.value))?;
                    self.word(element)?;
                }
                self.texts.insert(name.clone());
            }
        }
        self.sets(&name, scope);
        Ok(())
    }

    fn sets(&mut self, name: &str, scope: Scope) {
        if builtins::decides_what_runs(name) {
            self.unknowable(format!("setting `{name}` changes what commands mean"));
        } else if !builtins::is_harmless_variable(name, scope == Scope::Shell) {
            self.line.parts.push(Part::Sets(name.to_owned()));
        }
    }

    fn redirects(&mut self, redirects: Option<&RedirectList>) -> Result<(), Unreadable> {
        redirects.iter().flat_map(|list| &list.0).try_for_each(|redirect| self.redirect(redirect))
    }

    fn redirect(&mut self, redirect: &IoRedirect) -> Result<(), Unreadable> {
        match redirect {
            IoRedirect::File(_, kind, target) => self.redirected_file(kind, target),
            IoRedirect::OutputAndError(word, _) => {
                let path = self.word(word)?;
                self.file(FileAccess::Write, path);
                Ok(())
            }
            IoRedirect::HereString(_, word) => self.word(word).map(|_| ()),
            IoRedirect::HereDocument(_, document) => {
                if document.requires_expansion {
                    let mut inside = Vec::new();
                    command_word::read_unquoted_text(&document.doc.value, &mut inside);
                    self.inside(inside)?;
                }
                Ok(())
            }
        }
    }

    fn redirected_file(
        &mut self,
        kind: &IoFileRedirectKind,
        target: &IoFileRedirectTarget,
    ) -> Result<(), Unreadable> {
        use IoFileRedirectKind as K;
        let accesses: &[FileAccess] = match kind {
            K::Read | K::DuplicateInput => &[FileAccess::Read],
            K::Write | K::Append | K::Clobber | K::DuplicateOutput => &[FileAccess::Write],
            K::ReadAndWrite => &[FileAccess::Read, FileAccess::Write],
        };
        let path = match target {
            IoFileRedirectTarget::Filename(word) => self.word(word)?,
            IoFileRedirectTarget::Fd(_) => return Ok(()),
            IoFileRedirectTarget::ProcessSubstitution(_, subshell) => return self.list(&subshell.list),
            IoFileRedirectTarget::Duplicate(word) => {
                let path = self.word(word)?;
                let is_descriptor =
                    |text: &str| text.trim_end_matches('-').chars().all(|c| c.is_ascii_digit());
                if path.known().is_some_and(is_descriptor) {
                    return Ok(());
                }
                // Bash expands this word a second time, quotes gone.
                self.expands_again = true;
                path
            }
        };
        accesses.iter().for_each(|access| self.file(*access, path.clone()));
        Ok(())
    }

    fn file(&mut self, access: FileAccess, path: Word) {
        let address = path.known().and_then(|path| {
            path.strip_prefix("/dev/tcp/").or_else(|| path.strip_prefix("/dev/udp/")).map(str::to_owned)
        });
        if let Some(address) = address {
            self.line.parts.push(Part::Fetches(address.split('/').next().map(str::to_owned)));
        }
        self.line.parts.push(Part::File(FileUse { access, path, how: How::Redirection }));
    }

    fn words<'w>(&mut self, words: impl IntoIterator<Item = &'w ast::Word>) -> Result<Vec<Word>, Unreadable> {
        words.into_iter().map(|word| self.word(word)).collect()
    }

    fn word(&mut self, word: &ast::Word) -> Result<Word, Unreadable> {
        let mut inside = Vec::new();
        let read = command_word::read(&word.value, self.fill, &mut inside);
        self.inside(inside)?;
        Ok(read)
    }

    fn compute(&mut self, text: &str) -> Result<(), Unreadable> {
        let mut inside = vec![Inside::Computes(text.to_owned())];
        command_word::read_unquoted_text(text, &mut inside);
        self.inside(inside)
    }

    fn inside(&mut self, inside: Vec<Inside>) -> Result<(), Unreadable> {
        for found in inside {
            match found {
                Inside::Runs(command) => self.text(&command)?,
                Inside::Computes(text) => self.computed.extend(names_in(&text)),
                Inside::Assigns(name) => {
                    self.texts.insert(name.clone());
                    self.sets(&name, Scope::Shell);
                }
                Inside::Evaluates => self.evaluates = true,
                Inside::OpensSubscript => self.opens_subscript = true,
                Inside::HoldsSubstitution => self.holds_substitution = true,
                Inside::Unknowable(why) => self.unknowable(why),
            }
        }
        Ok(())
    }

    fn unknowable(&mut self, why: String) {
        self.line.parts.push(Part::Unknowable(why));
    }
}

/// Who sees a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// The shell, as far as the variable is not one that programs already see.
    Shell,
    Programs,
}

fn name_of(assignment: &Assignment) -> &str {
    match &assignment.name {
        AssignmentName::VariableName(name) | AssignmentName::ArrayElementName(name, _) => name,
    }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
}

/// `{fd}` is no word at all before a redirection, but the parser takes it for one.
fn names_a_descriptor(simple: &SimpleCommand) -> bool {
    let named = |word: &ast::Word| is_descriptor_name(&word.value);
    let items: &[Item] = simple.suffix.as_ref().map_or(&[], |suffix| &suffix.0);
    simple.word_or_name.as_ref().is_some_and(named)
        || items.windows(2).any(|pair| matches!(pair, [Item::Word(word), Item::IoRedirect(_)] if named(word)))
}

fn is_descriptor_name(word: &str) -> bool {
    word.strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// The variables that an arithmetic expression reads.
fn names_in(expression: &str) -> Vec<String> {
    expression
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
        .map(str::to_owned)
        .collect()
}

fn shown(word: &Word) -> String {
    match word {
        Word::Known(text) => text.clone(),
        Word::Glob(pattern) => pattern.clone(),
        Word::Unknown { prefix, .. } => format!("{prefix}$…"),
    }
}
