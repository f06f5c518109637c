//! Takes typed values out of a parsed file and says what is wrong, with line and column.
//!
//! Knows JSON types and positions, not settings keys: those are in `read_settings.rs`.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use jsonc_parser::ast::{Object, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use crate::duration::{DurationError, parse_duration, parse_wall_time};
use crate::expand::expand;
use crate::problem::{Problem, Severity, nearest, position, quotable};
use crate::read_settings::Expand;
use crate::settings::Limit;

/// No settings need more; the parser itself stops at 512, so no input can exhaust the stack.
const MAX_DEPTH: usize = 64;
/// Nobody reads more, and finding a position costs a pass over the text.
const MAX_PROBLEMS: usize = 20;
/// The key with which the JSON library marks its own numbers; as data it would turn into one.
const NUMBER_MARKER: &str = "$serde_json::private::Number";

pub(crate) struct Reader<'a> {
    text: &'a str,
    file: &'a Path,
    expand: Expand<'a>,
    pub(crate) errors: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

/// What an unknown key means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unknown {
    Warn,
    /// Where a typing error could silently switch a protection off.
    Refuse,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(text: &'a str, file: &'a Path, expand: Expand<'a>) -> Reader<'a> {
        Reader { text, file, expand, errors: Vec::new(), warnings: Vec::new() }
    }

    /// The whole text as one object. `None` when it is empty, or when an error says why not.
    pub(crate) fn root(&mut self) -> Option<Node<'a>> {
        let options = ParseOptions {
            allow_comments: true,
            allow_trailing_commas: true,
            allow_loose_object_property_names: false,
            allow_missing_commas: false,
            allow_single_quoted_strings: false,
            allow_hexadecimal_numbers: false,
            allow_unary_plus_numbers: false,
            allow_bare_decimal_point_numbers: false,
            allow_non_finite_numbers: false,
            allow_extended_string_escapes: false,
        };
        let root = match parse_to_ast(self.text, &CollectOptions::default(), &options) {
            Ok(parsed) => parsed.value?,
            Err(error) => {
                let message = format!("this is not valid JSON ({})", error.kind());
                self.error(error.range().start, message, None);
                return None;
            }
        };
        self.check_tree(&root, 1);
        if root.as_object().is_none() {
            self.error(root.start(), "settings are one object, `{ … }`".to_owned(), None);
            return None;
        }
        Some(root)
    }

    /// Duplicate keys hide one of two values (a deny list, say), so they are errors everywhere.
    fn check_tree(&mut self, node: &Node<'_>, depth: usize) {
        if depth > MAX_DEPTH {
            let message = format!("this is nested more than {MAX_DEPTH} levels deep");
            self.error(node.start(), message, None);
            return;
        }
        match node {
            Node::Object(object) => {
                let mut seen = HashSet::new();
                for property in &object.properties {
                    let name = property.name.as_str();
                    if !seen.insert(name) {
                        let message = format!("`{}` stands here twice", quotable(name));
                        self.error(property.start(), message, Some("keep one of them".to_owned()));
                    }
                    if name == NUMBER_MARKER {
                        let message = format!("`{NUMBER_MARKER}` cannot be a key");
                        self.error(property.start(), message, None);
                    }
                    self.check_tree(&property.value, depth + 1);
                }
            }
            Node::Array(array) => {
                array.elements.iter().for_each(|element| self.check_tree(element, depth + 1))
            }
            Node::StringLit(_) | Node::NumberLit(_) | Node::BooleanLit(_) | Node::NullKeyword(_) => {}
        }
    }

    /// The entries of an object whose keys are in `known`; the others are reported.
    pub(crate) fn entries<'n, 't>(
        &mut self,
        path: &str,
        node: &'n Node<'t>,
        known: &[&str],
        unknown: Unknown,
    ) -> Vec<(&'n str, &'n Node<'t>)> {
        let Some(object) = self.object(path, node) else { return Vec::new() };
        let mut entries = Vec::new();
        for property in &object.properties {
            let name = property.name.as_str();
            if known.contains(&name) {
                entries.push((name, &property.value));
            } else {
                self.unknown_key(path, name, property.start(), known, unknown);
            }
        }
        entries
    }

    pub(crate) fn unknown_key(
        &mut self,
        path: &str,
        name: &str,
        at: usize,
        known: &[&str],
        unknown: Unknown,
    ) {
        let place = if path.is_empty() { String::new() } else { format!(" in `{path}`") };
        let message = format!("`{}` is not a known key{place}", quotable(name));
        let hint = match nearest(name, known) {
            Some(meant) => Some(format!("did you mean `{meant}`?")),
            None => Some(format!("known keys: {}", listed(known))),
        };
        match unknown {
            Unknown::Warn => self.warn(at, message, hint),
            Unknown::Refuse => self.error(at, message, hint),
        }
    }

    pub(crate) fn object<'n, 't>(&mut self, path: &str, node: &'n Node<'t>) -> Option<&'n Object<'t>> {
        let object = node.as_object();
        if object.is_none() {
            self.wrong_type(path, "an object", node);
        }
        object
    }

    /// A string, variables expanded where this layer does that.
    pub(crate) fn string(&mut self, path: &str, node: &Node<'_>) -> Option<String> {
        let literal = self.literal(path, node)?;
        Some(self.expanded(path, literal, node.start()))
    }

    /// A string taken as it stands.
    pub(crate) fn literal<'n>(&mut self, path: &str, node: &'n Node<'_>) -> Option<&'n str> {
        let string = node.as_string_lit();
        if string.is_none() {
            self.wrong_type(path, "a string", node);
        }
        string.map(|string| string.value.as_ref())
    }

    pub(crate) fn boolean(&mut self, path: &str, node: &Node<'_>) -> Option<bool> {
        let Node::BooleanLit(boolean) = node else {
            self.wrong_type(path, "true or false", node);
            return None;
        };
        Some(boolean.value)
    }

    pub(crate) fn one_of(&mut self, path: &str, node: &Node<'_>, allowed: &[&str]) -> Option<String> {
        let value = self.string(path, node)?;
        if allowed.contains(&value.as_str()) {
            return Some(value);
        }
        self.not_one_of(path, node, allowed);
        None
    }

    /// Quotes what stands in the file: a variable in it may stand for a secret.
    pub(crate) fn not_one_of(&mut self, path: &str, node: &Node<'_>, allowed: &[&str]) {
        let Some(value) = self.literal(path, node) else { return };
        let message = format!("`{path}` is `{}`, but may be one of {}", quotable(value), listed(allowed));
        let hint = nearest(value, allowed).map(|meant| format!("did you mean `{meant}`?"));
        self.error(node.start(), message, hint);
    }

    pub(crate) fn strings(&mut self, path: &str, node: &Node<'_>) -> Option<Vec<String>> {
        self.strings_that(path, node, |_| None)
    }

    /// A list of strings in which `fault` finds nothing wrong: it gives what is wrong with one, and a hint.
    pub(crate) fn strings_that(
        &mut self,
        path: &str,
        node: &Node<'_>,
        fault: impl Fn(&str) -> Option<(&'static str, &'static str)>,
    ) -> Option<Vec<String>> {
        let Some(array) = node.as_array() else {
            self.wrong_type(path, "a list of strings", node);
            return None;
        };
        let mut strings = Vec::new();
        for (index, element) in array.elements.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let Some(string) = self.string(&path, element) else { continue };
            match fault(&string) {
                Some((fault, hint)) => {
                    self.error(element.start(), format!("`{path}` {fault}"), Some(hint.to_owned()));
                }
                None => strings.push(string),
            }
        }
        Some(strings)
    }

    pub(crate) fn flag(&mut self, path: &str, node: &Node<'_>) -> Option<bool> {
        match node {
            Node::BooleanLit(boolean) => Some(boolean.value),
            _ => {
                self.wrong_type(path, "true or false", node);
                None
            }
        }
    }

    /// A whole number of at least `minimum`.
    pub(crate) fn whole<T>(&mut self, path: &str, node: &Node<'_>, minimum: T) -> Option<T>
    where
        T: std::str::FromStr + PartialOrd + std::fmt::Display,
    {
        let Node::NumberLit(number) = node else {
            self.wrong_type(path, "a whole number", node);
            return None;
        };
        match number.value.parse::<T>() {
            Ok(value) if value >= minimum => Some(value),
            _ => {
                let message = format!(
                    "`{path}` is {}, but must be a whole number of at least {minimum}",
                    quotable(number.value)
                );
                self.error(node.start(), message, None);
                None
            }
        }
    }

    pub(crate) fn truth(&mut self, path: &str, node: &Node<'_>) -> Option<bool> {
        match node {
            Node::BooleanLit(truth) => Some(truth.value),
            _ => {
                self.wrong_type(path, "true or false", node);
                None
            }
        }
    }

    /// A count of at least `minimum`, or -1 for no limit.
    pub(crate) fn count(&mut self, path: &str, node: &Node<'_>, minimum: u32) -> Option<Limit<u32>> {
        if matches!(node, Node::NumberLit(number) if number.value == "-1") {
            return Some(Limit::Unlimited);
        }
        let before = self.errors.len();
        let value = self.whole(path, node, minimum);
        if let Some(problem) = self.errors.get_mut(before) {
            problem.hint = Some("`-1` means no limit".to_owned());
        }
        value.map(Limit::AtMost)
    }

    /// A number that is `fine`; `must_be` says in words what that is.
    pub(crate) fn number(
        &mut self,
        path: &str,
        node: &Node<'_>,
        must_be: &str,
        fine: impl Fn(f64) -> bool,
    ) -> Option<f64> {
        let Node::NumberLit(number) = node else {
            self.wrong_type(path, "a number", node);
            return None;
        };
        let value = number.value.parse::<f64>().ok().filter(|value| value.is_finite() && fine(*value));
        if value.is_none() {
            let message = format!("`{path}` is {}, but must be {must_be}", quotable(number.value));
            self.error(node.start(), message, None);
        }
        value
    }

    /// Dollars above zero, or -1 for no limit.
    pub(crate) fn money(&mut self, path: &str, node: &Node<'_>) -> Option<Limit<f64>> {
        let Node::NumberLit(number) = node else {
            self.wrong_type(path, "a number", node);
            return None;
        };
        match number.value.parse::<f64>() {
            Ok(-1.0) => Some(Limit::Unlimited),
            Ok(value) if value.is_finite() && value > 0.0 => Some(Limit::AtMost(value)),
            _ => {
                let message = format!("`{path}` is {}, but must be above 0", quotable(number.value));
                self.error(node.start(), message, Some("`-1` means no limit".to_owned()));
                None
            }
        }
    }

    /// Seconds as a number, or a duration with a unit.
    pub(crate) fn duration(&mut self, path: &str, node: &Node<'_>) -> Option<Duration> {
        let text = self.duration_text(path, node)?;
        parse_duration(&text).map_err(|error| self.not_a_duration(path, node, &error)).ok()
    }

    pub(crate) fn wall_time(&mut self, path: &str, node: &Node<'_>) -> Option<Limit<Duration>> {
        let text = self.duration_text(path, node)?;
        parse_wall_time(&text).map_err(|error| self.not_a_duration(path, node, &error)).ok()
    }

    fn not_a_duration(&mut self, path: &str, node: &Node<'_>, error: &DurationError) {
        let message = match node.as_string_lit() {
            // Not quoted: a variable may stand for a secret.
            Some(string) if string.value.contains('$') => {
                format!("`{path}` does not stand for a usable duration")
            }
            _ => format!("`{path}`: {error}"),
        };
        self.error(node.start(), message, None);
    }

    fn duration_text(&mut self, path: &str, node: &Node<'_>) -> Option<String> {
        match node {
            Node::NumberLit(number) => Some(number.value.to_owned()),
            Node::StringLit(_) => self.string(path, node),
            _ => {
                self.wrong_type(path, "a number of seconds or a duration such as `30s`", node);
                None
            }
        }
    }

    /// Reads on without expanding variables, for text that a shell will expand itself.
    pub(crate) fn without_expansion<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        let expand = std::mem::replace(&mut self.expand, Expand::Never);
        let value = read(self);
        self.expand = expand;
        value
    }

    fn expanded(&mut self, path: &str, text: &str, at: usize) -> String {
        let Expand::From(env) = self.expand else { return text.to_owned() };
        let (expanded, unset) = expand(text, env);
        for name in unset {
            let message = format!("`{path}` names the variable `{}`, which is not set", quotable(&name));
            self.warn(at, message, Some("the text stays as it is; `$$` is a plain dollar sign".to_owned()));
        }
        expanded
    }

    pub(crate) fn wrong_type(&mut self, path: &str, expected: &str, node: &Node<'_>) {
        let found = match node {
            Node::StringLit(_) => "a string",
            Node::NumberLit(_) => "a number",
            Node::BooleanLit(_) => "a boolean",
            Node::Object(_) => "an object",
            Node::Array(_) => "a list",
            Node::NullKeyword(_) => "null",
        };
        self.error(node.start(), format!("`{path}` must be {expected}, not {found}"), None);
    }

    pub(crate) fn error(&mut self, at: usize, message: String, hint: Option<String>) {
        if self.errors.len() < MAX_PROBLEMS {
            let problem = self.problem(Severity::Error, at, message, hint);
            self.errors.push(problem);
        }
    }

    pub(crate) fn warn(&mut self, at: usize, message: String, hint: Option<String>) {
        if self.warnings.len() < MAX_PROBLEMS {
            let problem = self.problem(Severity::Warning, at, message, hint);
            // A value that is checked and then kept is read twice.
            if !self.warnings.contains(&problem) {
                self.warnings.push(problem);
            }
        }
    }

    fn problem(&self, severity: Severity, at: usize, message: String, hint: Option<String>) -> Problem {
        let (line, column) = position(self.text, at);
        Problem { severity, file: self.file.to_owned(), line, column, message, hint }
    }
}

pub(crate) fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
