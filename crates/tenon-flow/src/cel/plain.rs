//! `steps.test.result.passed && size(steps.plan.result.files) > 0`: what nearly every expression is made of, read here.
//!
//! The general parser takes a fraction of a millisecond for a line, which a document of a hundred steps would feel. The
//! tree is the one that it would give, places included; a test compares the two. Whatever is not plainly made of names,
//! paths, calls, operators and short literals (macros, fractions, negative numbers, escapes, lists, maps, the ternary
//! operator, and everything that is wrong) is left to it.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};
use cel::common::types::{CelBool, CelInt, CelString};

/// Longer numbers are for the parser to judge.
const MAX_DIGITS: usize = 9;
/// Words that are no names.
const RESERVED: [&str; 18] = [
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];
/// Calls that the parser turns into something else.
const MACROS: [&str; 6] = [
    operators::HAS,
    operators::ALL,
    operators::EXISTS,
    operators::EXISTS_ONE,
    operators::MAP,
    operators::FILTER,
];

/// The tree, and where each node is: a node's id is its position in the list.
pub(super) fn read(text: &str) -> Option<(IdedExpr, Vec<usize>)> {
    let mut reader = Reader { text, at: 0, offsets: Vec::new() };
    let tree = reader.any()?;
    (reader.at == text.len()).then_some((tree, reader.offsets))
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    offsets: Vec<usize>,
}

/// Operators that bind equally, and their functions.
type Level = &'static [(&'static str, &'static str)];

/// Longer signs before those they begin with.
const RELATIONS: Level = &[
    ("==", operators::EQUALS),
    ("!=", operators::NOT_EQUALS),
    (">=", operators::GREATER_EQUALS),
    ("<=", operators::LESS_EQUALS),
    (">", operators::GREATER),
    ("<", operators::LESS),
    ("in", operators::IN),
];
const SUMS: Level = &[("+", operators::ADD), ("-", operators::SUBSTRACT)];
const PRODUCTS: Level = &[("*", operators::MULTIPLY), ("/", operators::DIVIDE), ("%", operators::MODULO)];

impl Reader<'_> {
    fn any(&mut self) -> Option<IdedExpr> {
        self.logic("||", operators::LOGICAL_OR, |reader| {
            reader.logic("&&", operators::LOGICAL_AND, |reader| {
                reader.chain(RELATIONS, |reader| {
                    reader.chain(SUMS, |reader| reader.chain(PRODUCTS, Reader::negated))
                })
            })
        })
    }

    /// Terms beside one another become a balanced tree.
    fn logic(
        &mut self,
        sign: &str,
        function: &str,
        term: fn(&mut Self) -> Option<IdedExpr>,
    ) -> Option<IdedExpr> {
        let mut terms = vec![Some(term(self)?)];
        let mut signs = Vec::new();
        while let Some(at) = self.sign(sign) {
            let next = term(self)?;
            signs.push(self.id(at));
            terms.push(Some(next));
        }
        if signs.is_empty() { terms.pop()? } else { balanced(function, &mut terms, &signs) }
    }

    /// From left to right.
    fn chain(&mut self, level: Level, term: fn(&mut Self) -> Option<IdedExpr>) -> Option<IdedExpr> {
        let mut left = term(self)?;
        'next: loop {
            for (sign, function) in level {
                if let Some(at) = self.sign(sign) {
                    let id = self.id(at);
                    let right = term(self)?;
                    left = IdedExpr { id, expr: call(function, None, vec![left, right]) };
                    continue 'next;
                }
            }
            return Some(left);
        }
    }

    fn negated(&mut self) -> Option<IdedExpr> {
        let Some(at) = self.sign("!") else { return self.path() };
        let id = self.id(at);
        // Two in a row take each other away.
        self.space();
        if self.rest().starts_with('!') {
            return None;
        }
        let inner = self.path()?;
        Some(IdedExpr { id, expr: call(operators::LOGICAL_NOT, None, vec![inner]) })
    }

    fn path(&mut self) -> Option<IdedExpr> {
        let mut tree = self.first()?;
        loop {
            self.space();
            let at = self.at;
            match self.rest().bytes().next() {
                Some(b'.') => {
                    self.at += 1;
                    self.space();
                    let name = self.word().filter(|name| is_name(name))?;
                    self.space();
                    if self.rest().starts_with('(') {
                        tree = self.called(name, Some(Box::new(tree)))?;
                    } else {
                        let select = SelectExpr { operand: Box::new(tree), field: name, test: false };
                        tree = IdedExpr { id: self.id(at), expr: Expr::Select(select) };
                    }
                }
                Some(b'[') => {
                    self.at += 1;
                    let id = self.id(at);
                    let key = self.any()?;
                    self.close(']')?;
                    tree = IdedExpr { id, expr: call(operators::INDEX, None, vec![tree, key]) };
                }
                _ => return Some(tree),
            }
        }
    }

    fn first(&mut self) -> Option<IdedExpr> {
        self.space();
        let at = self.at;
        if self.rest().starts_with('(') {
            self.at += 1;
            let inner = self.any()?;
            self.close(')')?;
            return Some(inner);
        }
        if let Some(literal) = self.literal() {
            return Some(IdedExpr { id: self.id(at), expr: Expr::Literal(literal) });
        }
        let name = self.word()?;
        let after = self.rest().bytes().next();
        if name == "true" || name == "false" {
            let literal = LiteralValue::Boolean(CelBool::from(name == "true"));
            return Some(IdedExpr { id: self.id(at), expr: Expr::Literal(literal) });
        }
        if name == "null" {
            return Some(IdedExpr { id: self.id(at), expr: Expr::Literal(LiteralValue::Null) });
        }
        // `r"…"` is a text.
        if !is_name(&name) || matches!(after, Some(b'"' | b'\'')) {
            return None;
        }
        self.space();
        match self.rest().bytes().next() {
            Some(b'(') => self.called(name, None),
            // A message of some type.
            Some(b'{') => None,
            _ => Some(IdedExpr { id: self.id(at), expr: Expr::Ident(name) }),
        }
    }

    fn called(&mut self, name: String, target: Option<Box<IdedExpr>>) -> Option<IdedExpr> {
        if MACROS.contains(&name.as_str()) {
            return None;
        }
        let id = self.id(self.at);
        self.at += 1;
        let mut args = Vec::new();
        self.space();
        if !self.rest().starts_with(')') {
            args.push(self.any()?);
            while self.sign(",").is_some() {
                args.push(self.any()?);
            }
        }
        self.close(')')?;
        Some(IdedExpr { id, expr: call(&name, target, args) })
    }

    /// A whole number or a text without escapes.
    fn literal(&mut self) -> Option<LiteralValue> {
        let rest = &self.text[self.at..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            let is_plain = digits <= MAX_DIGITS && (digits == 1 || !rest.starts_with('0'));
            // Fractions, exponents and units are not for here.
            let is_whole = !rest[digits..].starts_with(|c: char| c == '.' || c.is_alphanumeric() || c == '_');
            let number: i64 = rest[..digits].parse().ok().filter(|_| is_plain && is_whole)?;
            self.at += digits;
            return Some(LiteralValue::Int(CelInt::from(number)));
        }
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        let length = rest[1..].find(quote)?;
        let inner = &rest[1..1 + length];
        if inner.is_empty() || inner.contains(['\\', '\n', '\r']) {
            return None;
        }
        self.at += length + 2;
        Some(LiteralValue::String(CelString::from(inner.to_owned())))
    }

    fn word(&mut self) -> Option<String> {
        let rest = &self.text[self.at..];
        let length = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        let word = &rest[..length];
        if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.at += length;
        Some(word.to_owned())
    }

    /// Where the sign stood, if it is next.
    fn sign(&mut self, sign: &str) -> Option<usize> {
        self.space();
        let after = self.rest().strip_prefix(sign)?;
        let is_word = sign.ends_with(|c: char| c.is_ascii_alphabetic());
        if is_word && after.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        // `!` is no part of `!=`.
        if sign == "!" && after.starts_with('=') {
            return None;
        }
        let at = self.at;
        self.at += sign.len();
        Some(at)
    }

    fn close(&mut self, bracket: char) -> Option<()> {
        self.space();
        self.rest().strip_prefix(bracket)?;
        self.at += 1;
        Some(())
    }

    fn space(&mut self) {
        self.at +=
            self.rest().bytes().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn id(&mut self, at: usize) -> u64 {
        self.offsets.push(at);
        self.offsets.len() as u64 - 1
    }
}

fn is_name(word: &str) -> bool {
    !RESERVED.contains(&word) && !["true", "false", "null"].contains(&word)
}

fn call(function: &str, target: Option<Box<IdedExpr>>, args: Vec<IdedExpr>) -> Expr {
    Expr::Call(CallExpr { func_name: function.to_owned(), target, args })
}

fn balanced(function: &str, terms: &mut [Option<IdedExpr>], signs: &[u64]) -> Option<IdedExpr> {
    let middle = signs.len() / 2;
    let (before, after) = terms.split_at_mut(middle + 1);
    let side = |terms: &mut [Option<IdedExpr>], signs: &[u64]| match signs {
        [] => terms.first_mut()?.take(),
        _ => balanced(function, terms, signs),
    };
    let left = side(before, &signs[..middle])?;
    let right = side(after, &signs[middle + 1..])?;
    Some(IdedExpr { id: signs[middle], expr: call(function, None, vec![left, right]) })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::cel::STANDARD;

    /// Every node in the order of the tree, with its place instead of its id.
    fn nodes(tree: &IdedExpr, place: &dyn Fn(u64) -> usize, out: &mut Vec<(String, usize)>) {
        let (name, inner): (String, Vec<&IdedExpr>) = match &tree.expr {
            Expr::Call(call) => (
                format!("{}/{}", call.func_name, call.target.is_some()),
                call.target.as_deref().into_iter().chain(&call.args).collect(),
            ),
            Expr::Select(select) => (format!(".{}{}", select.field, select.test), vec![&select.operand]),
            other => (format!("{other:?}"), Vec::new()),
        };
        out.push((name, place(tree.id)));
        inner.into_iter().for_each(|inner| nodes(inner, place, out));
    }

    fn compare(text: &str) -> bool {
        let Some((tree, offsets)) = read(text) else { return false };
        let program = STANDARD.compile(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        nodes(&tree, &|id| offsets[id as usize], &mut ours);
        let info = program.source_info();
        nodes(
            program.expression(),
            &|id| info.offset_for(id).map_or(0, |(start, _)| start as usize),
            &mut theirs,
        );
        assert_eq!(ours, theirs, "{text}");
        true
    }

    #[test]
    fn what_is_read_is_what_the_parser_reads() {
        let plain = [
            "a",
            " steps.plan.result.files[0].name ",
            "steps[\"a-b\"].status == 'completed'",
            "a && b && c && d && e || f || g",
            "a || b && !c",
            "!a.b.c(d, e.f, 1 + 2 * 3 - 4).g[h - 1] == (i <= j)",
            "size(a) > 0 && 'x' in b",
            "a.contains(\"y\") != true",
            "a<b==c>=d",
            "(((a)))",
            "now ( ) . b",
            "inner.x in int",
            "a % b / c * d",
        ];
        plain.iter().for_each(|text| assert!(compare(text), "{text}"));
        let left = [
            "",
            "a.",
            "a b",
            "-1",
            "1.5",
            "0x1f",
            "1u",
            "'\\n'",
            "''",
            "'''a'''",
            "r'a'",
            "b'a'",
            "[1]",
            "{'a': 1}",
            "T{}",
            "a ? b : c",
            "has(a.b)",
            "a.all(x, x)",
            "!!a",
            "a.true",
            "if",
            "a.in",
            "(a",
            "a)",
            "a[",
            "a[]",
            "f(,)",
            "a &",
            "1a",
            "a = b",
            "a // note",
            "é",
            "a ! = b",
            "1234567890",
        ];
        left.iter().for_each(|text| assert!(read(text).is_none(), "{text}"));
    }

    #[test]
    fn every_kind_of_operator_is_known_to_both() {
        let signs: HashMap<&str, &str> = RELATIONS.iter().chain(SUMS).chain(PRODUCTS).copied().collect();
        for (sign, function) in signs {
            assert_eq!(operators::find_operator(sign), Some(function));
        }
    }

    fn expressions() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            "[a-c]{1,2}".prop_map(|name| name),
            Just("steps.x.result".to_owned()),
            "[0-9]{1,3}",
            "'[a-z ]{1,3}'",
            Just("true".to_owned()),
            Just("null".to_owned()),
        ];
        leaf.prop_recursive(5, 40, 3, |inner| {
            let operators = prop::sample::select(vec![
                "==", "!=", "<", "<=", ">", ">=", " in ", "+", "-", "*", "/", "%", "&&", "||", " && ", " || ",
            ]);
            prop_oneof![
                (inner.clone(), operators, inner.clone()).prop_map(|(a, sign, b)| format!("{a}{sign}{b}")),
                inner.clone().prop_map(|a| format!("({a})")),
                inner.clone().prop_map(|a| format!("!{a}")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a})[{b}]")),
                (inner.clone(), "[a-z]{1,2}").prop_map(|(a, name)| format!("({a}).{name}")),
                (inner.clone(), prop::collection::vec(inner, 0..3))
                    .prop_map(|(a, args)| format!("({a}).call({})", args.join(", "))),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(256)))]

        #[test]
        fn whatever_is_read_is_read_alike(text in expressions()) {
            compare(&text);
        }

        #[test]
        fn nothing_is_read_that_the_parser_refuses(text in "[ab.'0-9()\\[\\]!&|=<>+,in -]{0,12}") {
            compare(&text);
        }
    }
}
