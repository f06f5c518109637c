//! What operators and functions make of their operands, and what they cannot: an error only where every value that may
//! stand there fails. It is one wherever it stands, also where `&&` or `?:` might pass it over, as CEL's own checker has
//! it; only a calculation with fixed values that fails is a warning there.

use cel::common::ast::{CallExpr, Expr, IdedExpr, operators};
use regex::Regex;

use super::check::Check;
use super::kinds::{self, Called, Kinds, SIGNATURES, Signature};
use super::scope::{Scope, literal_text};
use super::shape::{Shape, element};
use super::{CelError, convert, fixed, walk};
use crate::diagnostic::{Code, Severity, nearest, quoted};

const MACROS: [&str; 6] = ["has", "all", "exists", "exists_one", "map", "filter"];
/// Where true or false is needed.
const COMPARE: &str = "compare it with something: `… == 'completed'`, `size(…) > 0`";
/// Deeper calculations are not tried out beforehand.
const MAX_FIXED_DEPTH: usize = 16;

impl<'a> Check<'_, 'a> {
    pub(super) fn call(&mut self, node: &IdedExpr, call: &CallExpr) -> Shape<'a> {
        let before = self.findings.len();
        let gives = match call.func_name.as_str() {
            operators::INDEX => self.index(node, call),
            operators::CONDITIONAL => self.conditional(call),
            operators::LOGICAL_AND | operators::LOGICAL_OR => self.logic(call),
            operators::LOGICAL_NOT | operators::NOT_STRICTLY_FALSE => {
                for argument in &call.args {
                    let shape = self.shape(argument);
                    self.must_be_bool(argument, &shape);
                }
                Shape::Of(Kinds::BOOL)
            }
            operators::NEGATE => self.negate(node, call),
            _ => self.applied(node, call),
        };
        if self.findings.len() == before {
            self.fixed_failure(node);
        }
        gives
    }

    fn applied(&mut self, node: &IdedExpr, call: &CallExpr) -> Shape<'a> {
        let target = call.target.as_deref().map(|target| self.shape(target));
        let shapes: Vec<Shape<'a>> = call.args.iter().map(|argument| self.shape(argument)).collect();
        // What is a name with hyphens only looks like a subtraction.
        if self.is_told(self.expression.offset_of(node)) {
            return Shape::Anything;
        }
        match (call.func_name.as_str(), call.args.as_slice(), shapes.as_slice()) {
            (operators::EQUALS | operators::NOT_EQUALS, _, _) => {
                self.compared(node, call, &shapes);
                Shape::Of(Kinds::BOOL)
            }
            (
                name @ (operators::ADD
                | operators::SUBSTRACT
                | operators::MULTIPLY
                | operators::DIVIDE
                | operators::MODULO),
                _,
                [left, right],
            ) => self.arithmetic(node, name, left, right),
            (
                name @ (operators::LESS
                | operators::LESS_EQUALS
                | operators::GREATER
                | operators::GREATER_EQUALS),
                _,
                [left, right],
            ) => {
                if kinds::operation(name, left.kinds(), right.kinds()) == Kinds::NONE {
                    self.no_order(node, left, right);
                } else {
                    self.compared(node, call, &shapes);
                }
                Shape::Of(Kinds::BOOL)
            }
            (name @ operators::IN, [_, container], [left, right]) => {
                if kinds::operation(name, left.kinds(), right.kinds()) == Kinds::NONE {
                    self.not_in(container, left, right);
                } else {
                    self.compared(node, call, &shapes);
                }
                Shape::Of(Kinds::BOOL)
            }
            (name, _, _) => self.function(node, name, target, &shapes, call),
        }
    }

    pub(super) fn must_be_bool(&mut self, argument: &IdedExpr, shape: &Shape<'a>) {
        if !shape.may_be(Kinds::BOOL) {
            let message = format!("this gives {}, where true or false is needed", shape.words());
            self.error(Code::CelType, argument, message, COMPARE);
        }
    }

    /// Either side may be passed over: what the one decides, the other is not asked for.
    fn logic(&mut self, call: &CallExpr) -> Shape<'a> {
        self.guards += 1;
        for argument in &call.args {
            let shape = self.shape(argument);
            self.must_be_bool(argument, &shape);
        }
        self.guards -= 1;
        Shape::Of(Kinds::BOOL)
    }

    fn conditional(&mut self, call: &CallExpr) -> Shape<'a> {
        let [question, left, right] = call.args.as_slice() else { return Shape::Anything };
        let asked = self.shape(question);
        self.must_be_bool(question, &asked);
        self.guards += 1;
        let (left, right) = (self.shape(left), self.shape(right));
        self.guards -= 1;
        left.or(right)
    }

    fn index(&mut self, node: &IdedExpr, call: &CallExpr) -> Shape<'a> {
        let [operand, key] = call.args.as_slice() else { return Shape::Anything };
        let shape = self.shape(operand);
        let by = self.shape(key);
        let kinds = shape.kinds();
        if kinds != Kinds::NULL && kinds::operation(operators::INDEX, kinds, by.kinds()) == Kinds::NONE {
            let (message, hint) = if kinds.meets(Kinds::LIST) && !kinds.meets(Kinds::MAP) {
                let message = format!("a list is indexed by a number, and this is {}", by.words());
                (message, "number the element, from 0: `list[0]`; or go through them: `list.exists(it, …)`")
            } else if kinds.meets(Kinds::MAP) {
                (format!("{} is no name of a field", by.words()), "name the field: `map['field']`")
            } else {
                (format!("{} has no elements", shape.words()), "only lists and maps are indexed")
            };
            self.error(Code::CelType, key, message, hint);
            return Shape::Anything;
        }
        match literal_text(key) {
            Some(field) => self.field(node, &shape, field, false),
            None if kinds.meets(Kinds::MAP) => Shape::Anything,
            None => element(&shape),
        }
    }

    fn negate(&mut self, node: &IdedExpr, call: &CallExpr) -> Shape<'a> {
        let Some(operand) = call.args.first() else { return Shape::Anything };
        let shape = self.shape(operand);
        match kinds::negated(shape.kinds()) {
            Kinds::NONE => {
                let message = format!("`-` is for numbers, and this is {}", shape.words());
                self.error(Code::CelType, node, message, "make a number of it by `int(…)` or `double(…)`");
                Shape::Anything
            }
            kinds => Shape::Of(kinds),
        }
    }

    fn arithmetic(&mut self, node: &IdedExpr, name: &str, left: &Shape<'a>, right: &Shape<'a>) -> Shape<'a> {
        let (these, those) = (left.kinds(), right.kinds());
        let gives = kinds::operation(name, these, those);
        if gives != Kinds::NONE {
            return match (left, right) {
                (Shape::List(_), Shape::List(_)) => left.clone().or(right.clone()),
                _ => Shape::Of(gives),
            };
        }
        let sign = name.trim_matches('_');
        let are_numbers = these.is_within(Kinds::NUMBER) && those.is_within(Kinds::NUMBER);
        let message = if are_numbers {
            format!("`{sign}` is not for these two kinds of numbers")
        } else {
            format!("`{sign}` is not for {} and {}", left.words(), right.words())
        };
        let hint = match name {
            _ if are_numbers && name == operators::MODULO => "make both whole by `int(…)`",
            _ if are_numbers => "make both alike by `int(…)`",
            operators::ADD if these.meets(Kinds::STRING) || those.meets(Kinds::STRING) => {
                "text is put together with text: `… + string(…)`; a number is made of text by `int(…)`"
            }
            operators::ADD if these.meets(Kinds::LIST) || those.meets(Kinds::LIST) => {
                "a list is put together with a list: `… + [element]`"
            }
            _ => "calculate with numbers; they are made of text by `int(…)` or `double(…)`",
        };
        self.error(Code::CelType, node, message, hint);
        Shape::Anything
    }

    /// Text has no place among numbers.
    fn no_order(&mut self, node: &IdedExpr, left: &Shape<'a>, right: &Shape<'a>) {
        let message = format!("{} cannot be compared with {} by size", left.words(), right.words());
        let (these, those) = (left.kinds(), right.kinds());
        let either = |kind: Kinds| these.meets(kind) || those.meets(kind);
        let hint = if either(Kinds::LIST) {
            "compare how many there are: `size(list) > 0`"
        } else if either(Kinds::STRING) && either(Kinds::NUMBER) {
            "make a number of the text by `int(…)` or `double(…)`, or write the number without quotes"
        } else if either(Kinds::STRING) && either(Kinds::TIMESTAMP | Kinds::DURATION) {
            "make a time of the text by `timestamp(…)` or `duration(…)`"
        } else {
            "compare numbers with numbers and text with text"
        };
        self.error(Code::CelType, node, message, hint);
    }

    fn not_in(&mut self, container: &IdedExpr, left: &Shape<'a>, right: &Shape<'a>) {
        let kinds = right.kinds();
        let (message, hint) = if kinds.meets(Kinds::MAP) {
            (
                format!("{} is never a field of a map", left.words()),
                "a field is named by text: `'field' in map`",
            )
        } else {
            let hint = match kinds.meets(Kinds::STRING) {
                true => "whether a text has a part is written `text.contains('part')`",
                false => "name a list or a map, or write a list: `… in ['a', 'b']`",
            };
            (format!("`in` looks into a list or a map, and this is {}", right.words()), hint)
        };
        self.error(Code::CelType, container, message, hint);
    }

    fn function(
        &mut self,
        node: &IdedExpr,
        name: &str,
        target: Option<Shape<'a>>,
        arguments: &[Shape<'a>],
        call: &CallExpr,
    ) -> Shape<'a> {
        let how = if target.is_some() { Called::OnValue } else { Called::Alone };
        let of_name: Vec<&Signature> =
            SIGNATURES.iter().filter(|it| it.name == name && it.how == how).collect();
        if of_name.is_empty() {
            let message = format!("there is no function `{}` with these arguments", quoted(name));
            self.error(Code::CelType, node, message, function_meant(name, how));
            return Shape::Anything;
        }
        let given: Vec<&Shape<'a>> = target.iter().chain(arguments).collect();
        let counted: Vec<&Signature> =
            of_name.iter().filter(|it| it.takes.len() == given.len()).copied().collect();
        if counted.is_empty() {
            let extra = usize::from(how == Called::OnValue);
            let takes = of_name.iter().map(|it| it.takes.len() - extra).max().unwrap_or(0);
            let takes = match takes {
                0 => "nothing in its brackets".to_owned(),
                1 => "one value in its brackets".to_owned(),
                many => format!("{many} values in its brackets"),
            };
            let message = format!("`{name}` takes {takes}, and here are {}", arguments.len());
            self.error(Code::CelType, node, message, example(name, how));
            return Shape::Anything;
        }
        let fits = |it: &&&Signature| it.takes.iter().zip(&given).all(|(takes, given)| given.may_be(*takes));
        let fitting: Vec<&Signature> = counted.iter().filter(fits).copied().collect();
        if fitting.is_empty() {
            self.unfit(node, name, how, &counted, &given, call);
            return Shape::Anything;
        }
        if name == "matches" {
            self.pattern(node, call);
        }
        match fitting.iter().fold(Kinds::NONE, |so_far, it| so_far | it.gives) {
            Kinds::ANY => Shape::Anything,
            kinds => Shape::Of(kinds),
        }
    }

    /// No way to call it takes what is given: the first value that none of them takes.
    fn unfit(
        &mut self,
        node: &IdedExpr,
        name: &str,
        how: Called,
        counted: &[&Signature],
        given: &[&Shape<'a>],
        call: &CallExpr,
    ) {
        let takes = |position: usize| {
            counted.iter().filter_map(|it| it.takes.get(position)).fold(Kinds::NONE, |all, it| all | *it)
        };
        let position =
            (0..given.len()).find(|position| !given[*position].may_be(takes(*position))).unwrap_or(0);
        let shape = given[position];
        let message =
            format!("`{name}` is for {}, and this is {}", takes(position).all_words(), shape.words());
        let is_text = takes(position) == Kinds::STRING;
        let hint = match name {
            "contains" if position == 0 && shape.may_be(Kinds::LIST) => {
                "whether a list has an element is written `element in list`".to_owned()
            }
            "contains" if position == 0 && shape.may_be(Kinds::MAP) => {
                "whether a map has a field is written `has(map.field)`".to_owned()
            }
            "int" if shape.may_be(Kinds::BOOL) => "write `… ? 1 : 0`".to_owned(),
            "bool" => COMPARE.to_owned(),
            _ if is_text && shape.kinds().is_within(Kinds::NUMBER | Kinds::BOOL | Kinds::NULL) => {
                "make it text by `string(…)`".to_owned()
            }
            _ => example(name, how),
        };
        let extra = usize::from(how == Called::OnValue);
        let at = position.checked_sub(extra).and_then(|position| call.args.get(position)).unwrap_or(node);
        self.error(Code::CelType, at, message, hint);
    }

    fn pattern(&mut self, node: &IdedExpr, call: &CallExpr) {
        let Some(pattern) = call.args.last().and_then(literal_text) else { return };
        let Err(error) = Regex::new(pattern) else { return };
        let reason = error.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim();
        let message = format!("`{}` is not a pattern: {reason}", quoted(pattern));
        let hint = "write a backslash before a sign that is meant itself: `r'\\('`";
        self.error(Code::CelType, node, message, hint);
    }

    /// A calculation with fixed values is tried out.
    fn fixed_failure(&mut self, node: &IdedExpr) {
        if !is_fixed(node) || walk::depth(node) > MAX_FIXED_DEPTH {
            return;
        }
        let reason = match fixed(node, &Scope::new()) {
            Ok(()) | Err(CelError::Budget) => return,
            Err(CelError::MissingKey { key }) => format!("there is no `{}`", quoted(&key)),
            Err(error) => convert::cut(&error.to_string()),
        };
        let severity = if self.guards == 0 { Severity::Error } else { Severity::Warning };
        let message = format!("this always fails: {reason}");
        self.find(severity, Code::CelType, node, message, "write what is meant: nothing in it can change");
    }
}

/// Made of literals alone.
fn is_fixed(node: &IdedExpr) -> bool {
    match &node.expr {
        Expr::Literal(_) => true,
        Expr::Call(_) | Expr::List(_) | Expr::Map(_) => walk::children(node).into_iter().all(is_fixed),
        _ => false,
    }
}

/// How a function is called.
fn example(name: &str, how: Called) -> String {
    match (name, how) {
        ("size", Called::OnValue) => "as in `list.size()`".to_owned(),
        ("matches", Called::Alone) => "as in `matches(text, '^a.*$')`".to_owned(),
        ("timestamp", _) => "as in `timestamp('2026-01-31T09:00:00Z')`".to_owned(),
        ("duration", _) => "as in `duration('1h30m')`".to_owned(),
        (name, Called::Alone) => format!("as in `{name}(value)`"),
        (name, Called::OnValue) if name.starts_with("get") => format!("as in `timestamp(text).{name}()`"),
        (name, Called::OnValue) => format!("as in `text.{name}('…')`"),
    }
}

/// What was probably meant by a function that is not there.
fn function_meant(name: &str, how: Called) -> String {
    if MACROS.contains(&name) {
        return if name == "has" {
            "as in `has(steps.plan.result.field)`".to_owned()
        } else {
            format!("as in `list.{name}(element, …)`: a name of your own, and what is asked of it")
        };
    }
    match name {
        "len" | "length" | "count" => return "write `size(…)`".to_owned(),
        "includes" if how == Called::OnValue => {
            return "write `element in list`, or `text.contains('…')`".to_owned();
        }
        "any" | "some" | "find" => return "write `list.exists(element, …)`".to_owned(),
        "every" => return "write `list.all(element, …)`".to_owned(),
        "toLowerCase" | "lower" | "lowerAscii" | "toUpperCase" | "upper" | "upperAscii" => {
            return "compare by a pattern: `text.matches('(?i)^…$')`".to_owned();
        }
        "str" | "toString" => return "write `string(…)`".to_owned(),
        "float" | "number" => return "write `double(…)` or `int(…)`".to_owned(),
        "now" => return "an expression has no clock: let a step submit the time".to_owned(),
        _ => {}
    }
    if let Some(other) = SIGNATURES.iter().find(|it| it.name == name) {
        return example(name, other.how);
    }
    let mut known: Vec<&str> = SIGNATURES.iter().filter(|it| it.how == how).map(|it| it.name).collect();
    known.extend(MACROS);
    known.dedup();
    match nearest(name, known.iter().copied()).filter(|meant| *meant != name) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
            format!("there are {}", names.join(", "))
        }
    }
}
