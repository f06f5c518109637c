//! One word of a command line: what it will be once bash has read it, as far as its text tells.
//!
//! Quotes are removed, `~` and `$HOME` are filled in, everything else that bash replaces leaves the word
//! unknown. What a word runs on its way (`$(…)`, backquotes, arithmetic) is handed to `command_parse.rs`.

use std::path::Path;

use brush_parser::ParserOptions;
use brush_parser::word::{
    self, Parameter, ParameterExpr, ParameterTransformOp, SpecialParameter, TildeExpr, WordPiece,
    WordPieceWithSource,
};

/// What a word becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// Exactly this.
    Known(String),
    /// File names that fit this pattern; characters that stand for themselves are escaped.
    Glob(String),
    /// Something that starts with `prefix`.
    Unknown { prefix: String, count: Count },
}

/// How many words an unknown word can become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Count {
    One,
    Any,
}

/// What a word does beyond being a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Inside {
    /// A command line of its own.
    Runs(String),
    /// Arithmetic, with the names it reads.
    Computes(String),
    /// A variable gets a value nobody sees.
    Assigns(String),
    /// `${!x}`: what the variable holds is evaluated as a name.
    Evaluates,
    /// A literal with the opening of a subscript in it.
    OpensSubscript,
    /// A literal with (a part of) a substitution in it, which a later evaluation would run.
    HoldsSubstitution,
    /// It cannot be told what this does.
    Unknowable(String),
}

impl Word {
    pub fn known(&self) -> Option<&str> {
        match self {
            Word::Known(text) => Some(text),
            Word::Glob(_) | Word::Unknown { .. } => None,
        }
    }

    /// What it certainly starts with.
    pub fn prefix(&self) -> &str {
        match self {
            Word::Known(text) => text,
            Word::Glob(pattern) => pattern.split(['*', '?', '[', '\\']).next().unwrap_or_default(),
            Word::Unknown { prefix, .. } => prefix,
        }
    }

    /// Whether it can be an option, or several.
    pub fn may_be_option(&self) -> bool {
        match self {
            Word::Known(text) => text.starts_with('-'),
            Word::Glob(_) | Word::Unknown { .. } => {
                let prefix = self.prefix();
                prefix.is_empty() || prefix.starts_with('-')
            }
        }
    }

    pub fn anything() -> Word {
        Word::Unknown { prefix: String::new(), count: Count::Any }
    }
}

/// What can be filled in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fill<'a> {
    pub home: Option<&'a Path>,
}

/// Without extended patterns, as `bash -c` starts.
pub(crate) fn parser_options() -> ParserOptions {
    ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() }
}

/// Reads one word as it is written.
pub(crate) fn read(raw: &str, fill: Fill<'_>, inside: &mut Vec<Inside>) -> Word {
    let Ok(pieces) = word::parse(raw, &parser_options()) else {
        inside.push(Inside::Unknowable(format!("`{raw}` cannot be read")));
        return Word::anything();
    };
    let mut reader = Reader { fill, inside, made: Made::default() };
    reader.pieces(&pieces, Quotes::None);
    let made = reader.made;
    inside.extend(made.opens_subscript.then_some(Inside::OpensSubscript));
    inside.extend(made.holds_substitution.then_some(Inside::HoldsSubstitution));
    made.finish()
}

/// Text in which quotes mean nothing: the body of a here-document, arithmetic, the inside of `${…}`.
/// What is found in it may be more than bash would run, never less.
pub(crate) fn read_unquoted_text(text: &str, inside: &mut Vec<Inside>) {
    match word::parse_heredoc(text, &parser_options()) {
        Ok(pieces) => {
            let mut reader = Reader { fill: Fill::default(), inside, made: Made::default() };
            reader.pieces(&pieces, Quotes::Double);
        }
        Err(_) => inside.push(Inside::Unknowable("a here-document or `${…}` cannot be read".to_owned())),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Double,
}

/// A word being put together.
#[derive(Default)]
struct Made {
    text: String,
    pattern: String,
    is_pattern: bool,
    unknown: Option<(usize, Count)>,
    /// The unquoted text alone, for braces.
    bare: String,
    opens_subscript: bool,
    holds_substitution: bool,
}

impl Made {
    fn literal(&mut self, text: &str) {
        self.text.push_str(text);
        self.opens_subscript |= text.contains('[');
        self.holds_substitution |= text.contains("$(") || text.contains('`') || text.ends_with('$');
        for c in text.chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\' | '!') {
                self.pattern.push('\\');
            }
            self.pattern.push(c);
        }
    }

    fn bare(&mut self, text: &str) {
        self.text.push_str(text);
        self.pattern.push_str(text);
        self.bare.push_str(text);
        self.opens_subscript |= text.contains('[');
        let set = text.find('[').is_some_and(|at| text[at..].contains(']'));
        self.is_pattern |= text.contains(['*', '?']) || set;
    }

    fn unknown(&mut self, count: Count) {
        let at = self.text.len();
        self.unknown = Some(match self.unknown {
            None => (at, count),
            Some((first, Count::Any)) => (first, Count::Any),
            Some((first, Count::One)) => (first, count),
        });
    }

    fn finish(self) -> Word {
        // `{a,b}` and `{1..9}`: several words.
        let braces = self.bare.find('{').filter(|at| {
            let rest = &self.bare[*at..];
            rest.contains('}') && (rest.contains(',') || rest.contains(".."))
        });
        if braces.is_some() {
            let at = self.text.find('{').unwrap_or(0).min(self.unknown.map_or(usize::MAX, |(at, _)| at));
            return Word::Unknown { prefix: self.text[..at].to_owned(), count: Count::Any };
        }
        match self.unknown {
            Some((at, count)) => Word::Unknown { prefix: self.text[..at].to_owned(), count },
            None if self.is_pattern => Word::Glob(self.pattern),
            None => Word::Known(self.text),
        }
    }
}

struct Reader<'a> {
    fill: Fill<'a>,
    inside: &'a mut Vec<Inside>,
    made: Made,
}

impl Reader<'_> {
    fn pieces(&mut self, pieces: &[WordPieceWithSource], quotes: Quotes) {
        for piece in pieces {
            self.piece(&piece.piece, quotes);
        }
        // A `$` that the parser let stand before a bracket is an expansion it does not know.
        let unread = pieces.windows(2).any(|pair| {
            matches!((&pair[0].piece, &pair[1].piece), (WordPiece::Text(dollar), WordPiece::Text(rest))
                if dollar.ends_with('$') && rest.starts_with(['{', '(', '[']))
        });
        if unread {
            self.unknowable("an expansion cannot be read".to_owned());
        }
    }

    fn piece(&mut self, piece: &WordPiece, quotes: Quotes) {
        match piece {
            WordPiece::Text(text) if quotes == Quotes::Double => self.made.literal(&text.replace("\\\n", "")),
            WordPiece::Text(text) => {
                if text.contains("<(") || text.contains(">(") {
                    self.unknowable(format!("`{text}` runs a command inside a word"));
                }
                self.made.bare(text);
            }
            WordPiece::SingleQuotedText(text) => self.made.literal(text),
            WordPiece::AnsiCQuotedText(text) => match ansi_c(text) {
                Some(text) => self.made.literal(&text),
                None => self.made.unknown(Count::One),
            },
            WordPiece::DoubleQuotedSequence(pieces) => self.pieces(pieces, Quotes::Double),
            // A translation may put anything in its place.
            WordPiece::GettextDoubleQuotedSequence(pieces) => {
                self.made.unknown(Count::One);
                self.pieces(pieces, Quotes::Double);
            }
            WordPiece::EscapeSequence(text) => {
                let escaped = text.strip_prefix('\\').unwrap_or(text);
                if escaped != "\n" {
                    self.made.literal(escaped);
                }
            }
            WordPiece::TildeExpansion(tilde) => match (tilde, self.fill.home.and_then(Path::to_str)) {
                (TildeExpr::Home, Some(home)) => self.made.literal(home),
                _ => self.made.unknown(Count::One),
            },
            WordPiece::ParameterExpansion(expression) => self.parameter(expression, quotes),
            WordPiece::CommandSubstitution(command) | WordPiece::BackquotedCommandSubstitution(command) => {
                self.inside.push(Inside::Runs(command.clone()));
                self.made.unknown(count(quotes));
            }
            WordPiece::ArithmeticExpression(expression) => {
                self.compute(&expression.value);
                self.made.unknown(Count::One);
            }
        }
    }

    fn unknowable(&mut self, why: String) {
        self.inside.push(Inside::Unknowable(why));
    }

    fn compute(&mut self, text: &str) {
        self.inside.push(Inside::Computes(text.to_owned()));
        read_unquoted_text(text, self.inside);
    }

    fn parameter(&mut self, expression: &ParameterExpr, quotes: Quotes) {
        use ParameterExpr as P;
        if is_indirect(expression) {
            self.inside.push(Inside::Evaluates);
        }
        let texts: Vec<&String> = match expression {
            P::Parameter { parameter: Parameter::Named(name), indirect: false } => {
                match (name.as_str(), self.fill.home.and_then(Path::to_str)) {
                    ("HOME", Some(home))
                        if quotes == Quotes::Double || !home.contains(char::is_whitespace) =>
                    {
                        self.made.literal(home);
                    }
                    _ => self.made.unknown(count(quotes)),
                }
                return;
            }
            P::Parameter { .. }
            | P::ParameterLength { .. }
            | P::VariableNames { .. }
            | P::MemberKeys { .. } => Vec::new(),
            P::UseDefaultValues { default_value, .. } => default_value.iter().collect(),
            P::AssignDefaultValues { parameter, default_value, .. } => {
                if let Parameter::Named(name) | Parameter::NamedWithIndex { name, .. } = parameter {
                    self.inside.push(Inside::Assigns(name.clone()));
                }
                default_value.iter().collect()
            }
            P::IndicateErrorIfNullOrUnset { error_message, .. } => error_message.iter().collect(),
            P::UseAlternativeValue { alternative_value, .. } => alternative_value.iter().collect(),
            P::RemoveSmallestSuffixPattern { pattern, .. }
            | P::RemoveLargestSuffixPattern { pattern, .. }
            | P::RemoveSmallestPrefixPattern { pattern, .. }
            | P::RemoveLargestPrefixPattern { pattern, .. }
            | P::UppercaseFirstChar { pattern, .. }
            | P::UppercasePattern { pattern, .. }
            | P::LowercaseFirstChar { pattern, .. }
            | P::LowercasePattern { pattern, .. } => pattern.iter().collect(),
            P::ReplaceSubstring { pattern, replacement, .. } => {
                std::iter::once(pattern).chain(replacement).collect()
            }
            P::Substring { offset, length, .. } => {
                self.compute(&offset.value);
                if let Some(length) = length {
                    self.compute(&length.value);
                }
                Vec::new()
            }
            P::Transform { op, .. } => {
                if matches!(op, ParameterTransformOp::PromptExpand) {
                    self.unknowable("`${…@P}` runs what the variable holds".to_owned());
                }
                Vec::new()
            }
        };
        texts.into_iter().for_each(|text| read_unquoted_text(text, self.inside));
        if let Some(index) = index(expression) {
            self.compute(&index);
        }
        self.made.unknown(if is_all_parameters(expression) { Count::Any } else { count(quotes) });
    }
}

fn count(quotes: Quotes) -> Count {
    match quotes {
        Quotes::None => Count::Any,
        Quotes::Double => Count::One,
    }
}

/// The variable an expansion is about, and whether that one only names it.
fn of(expression: &ParameterExpr) -> Option<(&Parameter, bool)> {
    use ParameterExpr as P;
    match expression {
        P::Parameter { parameter, indirect }
        | P::UseDefaultValues { parameter, indirect, .. }
        | P::AssignDefaultValues { parameter, indirect, .. }
        | P::IndicateErrorIfNullOrUnset { parameter, indirect, .. }
        | P::UseAlternativeValue { parameter, indirect, .. }
        | P::ParameterLength { parameter, indirect }
        | P::RemoveSmallestSuffixPattern { parameter, indirect, .. }
        | P::RemoveLargestSuffixPattern { parameter, indirect, .. }
        | P::RemoveSmallestPrefixPattern { parameter, indirect, .. }
        | P::RemoveLargestPrefixPattern { parameter, indirect, .. }
        | P::Substring { parameter, indirect, .. }
        | P::Transform { parameter, indirect, .. }
        | P::UppercaseFirstChar { parameter, indirect, .. }
        | P::UppercasePattern { parameter, indirect, .. }
        | P::LowercaseFirstChar { parameter, indirect, .. }
        | P::LowercasePattern { parameter, indirect, .. }
        | P::ReplaceSubstring { parameter, indirect, .. } => Some((parameter, *indirect)),
        P::VariableNames { .. } | P::MemberKeys { .. } => None,
    }
}

fn is_indirect(expression: &ParameterExpr) -> bool {
    of(expression).is_some_and(|(_, indirect)| indirect)
}

/// The subscript, which is arithmetic (or a key, which does no harm to be read as that).
fn index(expression: &ParameterExpr) -> Option<String> {
    match of(expression)?.0 {
        Parameter::NamedWithIndex { index, .. } => Some(index.clone()),
        _ => None,
    }
}

/// Whether it makes several words even between quotes.
fn is_all_parameters(expression: &ParameterExpr) -> bool {
    match of(expression).map(|(parameter, _)| parameter) {
        None => true,
        Some(Parameter::Special(SpecialParameter::AllPositionalParameters { concatenate })) => !concatenate,
        Some(Parameter::NamedWithAllIndices { concatenate, .. }) => !concatenate,
        Some(_) => false,
    }
}

/// The text inside `$'…'`; `None` where its escapes are not plain.
fn ansi_c(text: &str) -> Option<String> {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let escape = chars.next()?;
        let mut number = |first: Option<char>, radix: u32, most: usize| {
            let mut value = first.and_then(|c| c.to_digit(radix)).unwrap_or(0);
            let mut digits = usize::from(first.is_some());
            while digits < most {
                let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix)) else { break };
                value = value * radix + digit;
                digits += 1;
                chars.next();
            }
            (digits > 0).then_some(value)
        };
        let made = match escape {
            'a' => '\u{7}',
            'b' => '\u{8}',
            'e' | 'E' => '\u{1b}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\u{b}',
            c @ ('\\' | '\'' | '"' | '?') => c,
            'x' => char::from_u32(number(None, 16, 2)?).filter(char::is_ascii)?,
            'u' => char::from_u32(number(None, 16, 4)?)?,
            'U' => char::from_u32(number(None, 16, 8)?)?,
            c @ '0'..='7' => char::from_u32(number(Some(c), 8, 3)?).filter(char::is_ascii)?,
            _ => return None,
        };
        // A zero byte ends the text.
        if made == '\0' {
            return None;
        }
        out.push(made);
    }
    Some(out)
}
