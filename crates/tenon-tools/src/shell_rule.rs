//! What a rule such as `Bash(git log:*)` says about a program and its arguments.
//!
//! A deny or ask rule applies in doubt: options may stand anywhere, and a word that is not known yet may
//! be the one the rule names. An allow rule applies only where every word is known to fit.

use std::path::Path;

use crate::command_parse::{Invocation, base_name};
use crate::command_word::{Count, Word};
use crate::paths;
use crate::program_options::HazardKind;

/// Where programs come from that a plain name means. An allow rule for `git` is no rule for `./git`.
const SYSTEM_FOLDERS: &[&str] =
    &["/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin"];

/// A rule's words. `git log:*` and `git log *` are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandPattern {
    program: Pattern,
    words: Vec<PatternWord>,
    rest: Rest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternWord {
    One(Pattern),
    /// A lone `*` between other words.
    Several,
}

/// Text in which `*` stands for any characters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pattern(String);

/// What may follow the rule's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Nothing,
    Anything,
}

impl CommandPattern {
    pub fn parse(text: &str) -> Result<CommandPattern, String> {
        let (text, any) = match text.strip_suffix(":*") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let mut words = split(text)?;
        let ends_with_star = words.last().is_some_and(|word| word.ends_with('*'));
        if words.len() > 1 && words.last().is_some_and(|word| word == "*") {
            words.pop();
        }
        let rest = if any || ends_with_star { Rest::Anything } else { Rest::Nothing };
        let mut words = words.into_iter();
        let program = words.next().filter(|word| !word.is_empty()).ok_or("it names no program")?;
        if let Some(c) = program.chars().find(|c| {
            matches!(c, '?' | '[' | ']' | '{' | '}' | '$' | '=' | '`' | '|' | ';' | '&' | '<' | '>')
        }) {
            return Err(format!(
                "`{c}` has no meaning in a program's name; only `*` stands for other characters"
            ));
        }
        let words = words
            .map(|word| if word == "*" { PatternWord::Several } else { PatternWord::One(Pattern(word)) })
            .collect();
        Ok(CommandPattern { program: Pattern(program), words, rest })
    }

    /// Whether a deny or ask rule is about this command.
    pub fn may_cover(&self, call: &Invocation) -> bool {
        self.may_name(&call.program) && self.may_fit(&call.args)
    }

    /// Whether an allow rule covers this command with everything in it. `cwd` is where relative paths start;
    /// `None` if the line changes folders.
    pub fn covers(&self, call: &Invocation, cwd: Option<&Path>) -> bool {
        self.names(&call.program, cwd)
            && call.hazards.iter().all(|hazard| self.names_hazard(&hazard.word, hazard.kind))
            && fits(&self.words, self.rest, &call.args)
    }

    fn names_hazard(&self, word: &str, kind: HazardKind) -> bool {
        let named = |own: &PatternWord| matches!(own, PatternWord::One(pattern) if pattern.0 == word);
        kind != HazardKind::Unknown && self.words.iter().any(named)
    }

    fn may_name(&self, program: &str) -> bool {
        let rule = self.program.0.to_ascii_lowercase();
        let program = program.to_ascii_lowercase();
        Pattern(base_name(&rule).to_owned()).fits(base_name(&program))
            && (!rule.contains('/') || !program.contains('/') || base_name(&rule) == base_name(&program))
    }

    fn names(&self, program: &str, cwd: Option<&Path>) -> bool {
        let rule = &self.program.0;
        match (rule.contains('/'), program.rsplit_once('/')) {
            (false, None) => self.program.fits(program),
            (false, Some((folder, name))) => SYSTEM_FOLDERS.contains(&folder) && self.program.fits(name),
            (true, None) => false,
            (true, Some(_)) => {
                let place = |path: &str| match (path.starts_with('/'), cwd) {
                    (true, _) => Some(paths::fold(Path::new(path))),
                    (false, Some(cwd)) => Some(paths::fold(&cwd.join(path))),
                    (false, None) => None,
                };
                !rule.contains('*') && place(rule).is_some_and(|rule| place(program) == Some(rule))
            }
        }
    }

    /// In doubt, yes. Options are compared apart from the other words, which have to come in order.
    fn may_fit(&self, args: &[Word]) -> bool {
        let (options, operands): (Vec<&PatternWord>, Vec<&PatternWord>) =
            self.words.iter().partition(|word| word.option().is_some());
        options.iter().filter_map(|word| word.option()).all(|option| option.may_be_given(args))
            && self.operands_may_fit(&operands, args)
    }

    fn operands_may_fit(&self, operands: &[&PatternWord], args: &[Word]) -> bool {
        // Where the next operand may be looked for.
        let mut places = vec![false; args.len() + 1];
        places[0] = true;
        skip_options(&mut places, args);
        for operand in operands {
            let mut next = vec![false; args.len() + 1];
            for (at, _) in places.iter().enumerate().filter(|(_, reached)| **reached) {
                match operand {
                    PatternWord::Several => next[at..].fill(true),
                    PatternWord::One(pattern) => match args.get(at) {
                        Some(Word::Known(text)) => next[at + 1] |= pattern.fits_in_doubt(text),
                        // It may be this word, and the ones after it too.
                        Some(Word::Unknown { count: Count::Any, .. } | Word::Glob(_)) => {
                            next[at] = true;
                            next[at + 1] = true;
                        }
                        Some(word @ Word::Unknown { count: Count::One, .. }) => {
                            next[at + 1] |= pattern.0.contains('*') || pattern.0.starts_with(word.prefix());
                        }
                        None => {}
                    },
                }
            }
            places = next;
            skip_options(&mut places, args);
        }
        match self.rest {
            Rest::Anything => places.contains(&true),
            Rest::Nothing => places[args.len()],
        }
    }
}

/// Options may stand anywhere, with or without a value, and an unknown word may turn out to be none.
fn skip_options(places: &mut [bool], args: &[Word]) {
    for at in 0..args.len() {
        if !places[at] {
            continue;
        }
        if args[at].prefix().starts_with('-') {
            places[at + 1] = true;
            if at + 2 < places.len() {
                places[at + 2] = true;
            }
        }
        if matches!(args[at], Word::Unknown { count: Count::Any, .. } | Word::Glob(_)) {
            places[at + 1] = true;
        }
    }
}

/// Without any doubt: every word in its place.
fn fits(words: &[PatternWord], rest: Rest, args: &[Word]) -> bool {
    match words.split_first() {
        None => args.is_empty() || rest == Rest::Anything,
        Some((PatternWord::One(pattern), words)) => match args.split_first() {
            Some((Word::Known(text), args)) => pattern.fits(text) && fits(words, rest, args),
            _ => false,
        },
        Some((PatternWord::Several, words)) => (0..=args.len()).any(|at| fits(words, rest, &args[at..])),
    }
}

impl Pattern {
    fn fits(&self, text: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut left) = text.strip_prefix(first) else { return false };
        if !self.0.contains('*') {
            return left.is_empty();
        }
        let mut parts = parts.peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                return left.ends_with(part);
            }
            match left.find(part) {
                Some(at) => left = &left[at + part.len()..],
                None => return false,
            }
        }
        true
    }

    /// A path may be written in more than one way.
    fn fits_in_doubt(&self, text: &str) -> bool {
        let plain = |text: &str| {
            let folded = paths::fold(Path::new(text)).display().to_string();
            if folded.is_empty() { text.to_owned() } else { folded }
        };
        self.fits(text) || self.0.contains('/') && Pattern(plain(&self.0)).fits(&plain(text))
    }

    /// Whether arguments give the option this pattern names: as it is, letter by letter, abbreviated, with
    /// a value, or as its other spelling by the first letter.
    fn may_be_given(&self, args: &[Word]) -> bool {
        let as_it_is = |arg: &Word| arg.known().map_or_else(|| arg.may_be_option(), |text| self.fits(text));
        if args.iter().any(as_it_is) {
            return true;
        }
        match self.0.strip_prefix("--") {
            Some(name) => {
                let name = name.split('=').next().unwrap_or(name);
                args.iter().filter_map(Word::known).any(|given| match given.strip_prefix("--") {
                    Some(long) => {
                        !long.is_empty() && name.starts_with(long.split('=').next().unwrap_or(long))
                    }
                    None => {
                        given.starts_with('-')
                            && name.chars().next().is_some_and(|first| given.contains(first))
                    }
                })
            }
            None => self.0.chars().skip(1).all(|letter| {
                args.iter().filter_map(Word::known).any(|given| match given.strip_prefix("--") {
                    Some(long) => long.starts_with(letter),
                    None => given.starts_with('-') && given.contains(letter),
                })
            }),
        }
    }
}

impl PatternWord {
    fn option(&self) -> Option<&Pattern> {
        match self {
            PatternWord::One(pattern) if pattern.0.starts_with('-') && pattern.0.len() > 1 => Some(pattern),
            PatternWord::One(_) | PatternWord::Several => None,
        }
    }
}

/// Splits a rule into words; quotes keep spaces together.
fn split(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in text.chars() {
        match quote {
            Some(open) if c == open => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '\'' || c == '"' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    Ok(words)
}
