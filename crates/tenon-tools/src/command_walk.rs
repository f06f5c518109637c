//! Through a parsed command line, into substitutions, here-documents and arithmetic, and through the programs
//! that run other programs (`wrappers.rs`), down to a flat list of parts.
//!
//! Nothing is left out: what is not understood is reported as such. The types are in `command_parse.rs`.

use std::collections::HashSet;

use brush_parser::ast::{
    self, AndOr, AndOrList, Assignment, AssignmentName, AssignmentValue, BinaryPredicate, Command,
    CommandPrefixOrSuffixItem as Item, CompoundCommand, CompoundList, ExtendedTestExpr, IoFileRedirectKind,
    IoFileRedirectTarget, IoRedirect, Pipeline, RedirectList, SimpleCommand, UnaryPredicate,
};

use crate::bash_builtins as builtins;
use crate::command_parse::{
    CommandLine, FileAccess, FileUse, How, Invocation, Move, Part, Role, Unreadable, base_name, joined,
    syntax,
};
use crate::command_word::{self, Count, Fill, Inside, Word};
use crate::file_words;
use crate::program_options;
use crate::wrappers::{self, Reach, Shell};

/// Substitutions within substitutions.
const MAX_DEPTH: usize = 24;
/// More programs than a person would write into one line.
const MAX_PARTS: usize = 5_000;

pub(crate) struct Walker<'a> {
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
    pub fn new(fill: Fill<'a>) -> Walker<'a> {
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

    pub fn finish(mut self) -> CommandLine {
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

    pub fn text(&mut self, text: &str) -> Result<(), Unreadable> {
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
