//! How much one evaluation may do.
//!
//! CEL has no loops without end, but nested ones over long lists, doubled strings and large patterns come close.
//! The tree is therefore rewritten once: what is iterated, compared, added, copied or handed to a function passes
//! through `@spend`, which counts its size and returns it unchanged. The count is of work, never of time, so an
//! expression that is too much here is too much everywhere.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, operators};
use cel::common::types::{CelBool, CelBytes, CelList, CelMap, CelString};
use cel::common::value::{CowVal, Val};
use cel::{Context, ExecutionError, FunctionContext};
use regex::{Regex, RegexBuilder};

use super::written_number::{WrittenNumber, plain};
use super::{STANDARD, Scope, arithmetic, compare, convert, presence, times};

/// A unit is a value looked at or [`BYTES_PER_UNIT`] bytes of text. Going through a thousand results of a few pages
/// each takes less than a tenth of this, and all of it takes well under a second.
pub(super) const MAX_COST: u64 = 1_000_000;
const BYTES_PER_UNIT: u64 = 256;
/// Of text that a pattern is looked for in.
const MATCHED_BYTES_PER_UNIT: u64 = 16;
/// Compiling a pattern costs more than anything else that can be written in a few characters.
const PATTERN_COST: u64 = 25_000;
/// A pattern that needs more memory than this when compiled is refused.
const MAX_PATTERN_BYTES: usize = 256 * 1024;

const SPEND: &str = "@spend";
/// The same for what a function takes: a number as it was written becomes one of CEL's own.
const ARGUMENT: &str = "@argument";
const RANGE: &str = "@range";
const MATCHES: &str = "@matches";
const STRING: &str = "@string";

/// What one evaluation has spent.
#[derive(Clone, Default)]
pub(super) struct Meter {
    spent: Arc<AtomicU64>,
    patterns: Arc<Mutex<HashMap<String, Regex>>>,
}

impl Meter {
    pub(super) fn is_exhausted(&self) -> bool {
        self.spent.load(Ordering::Relaxed) > MAX_COST
    }

    fn spend(&self, cost: u64) -> Result<(), ExecutionError> {
        self.spent.fetch_add(cost, Ordering::Relaxed);
        if self.is_exhausted() { Err(ExecutionError::function_error(SPEND, "too much work")) } else { Ok(()) }
    }

    /// No more than what is left is counted: a value that is too large is not walked to its end.
    fn spend_on(&self, value: &dyn Val) -> Result<(), ExecutionError> {
        let left = MAX_COST.saturating_sub(self.spent.load(Ordering::Relaxed));
        self.spend(size(value, left))
    }

    fn pattern(&self, pattern: &str) -> Result<Regex, ExecutionError> {
        let mut patterns = self.patterns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = patterns.get(pattern) {
            return Ok(known.clone());
        }
        self.spend(PATTERN_COST)?;
        let compiled = RegexBuilder::new(pattern).size_limit(MAX_PATTERN_BYTES).build().map_err(|error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default();
            ExecutionError::function_error("matches", format!("not a pattern: {}", convert::cut(reason)))
        })?;
        patterns.insert(pattern.to_owned(), compiled.clone());
        Ok(compiled)
    }
}

/// The value and everything in it, up to `limit` and one more.
fn size(value: &dyn Val, limit: u64) -> u64 {
    let mut total: u64 = 0;
    let mut open: Vec<&dyn Val> = vec![value];
    while let Some(value) = open.pop() {
        total += 1;
        if let Some(text) = value.downcast_ref::<CelString>() {
            total += text.inner().len() as u64 / BYTES_PER_UNIT;
        } else if let Some(number) = value.downcast_ref::<WrittenNumber>() {
            total += number.text().len() as u64 / BYTES_PER_UNIT;
        } else if let Some(bytes) = value.downcast_ref::<CelBytes>() {
            total += bytes.inner().len() as u64 / BYTES_PER_UNIT;
        } else if let Some(list) = value.downcast_ref::<CelList>() {
            if total + list.inner().len() as u64 > limit {
                return limit + 1;
            }
            open.extend(list.inner().iter().map(AsRef::as_ref));
        } else if let Some(map) = value.downcast_ref::<CelMap>() {
            total += map.inner().len() as u64;
            open.extend(map.inner().values().map(AsRef::as_ref));
        }
        if total > limit {
            return limit + 1;
        }
    }
    total
}

pub(super) fn context<'v>(scope: &'v Scope, meter: &Meter) -> Context<'v, 'v> {
    let mut context = Context::with_env(STANDARD.clone());
    context.set_variable_resolver(scope);
    // Names with `@` cannot be written, so none of these can be taken.
    let _ = context.add_function(SPEND, spend(meter.clone()));
    let _ = context.add_function(ARGUMENT, argument(meter.clone()));
    let _ = context.add_function(RANGE, range(meter.clone()));
    let _ = context.add_function(MATCHES, matches(meter.clone()));
    for (name, operator) in arithmetic::STAND_INS {
        let _ = context.add_function(name, calculate(operator, meter.clone()));
    }
    for (name, operator) in compare::STAND_INS {
        let _ = context.add_function(name, compared(operator, meter.clone()));
    }
    let string: Function = Box::new(string);
    let _ = context.add_function(STRING, string);
    let duration: Function = Box::new(times::duration);
    let _ = context.add_function(times::DURATION, duration);
    let timestamp: Function = Box::new(times::timestamp);
    let _ = context.add_function(times::TIMESTAMP, timestamp);
    let has: Function = Box::new(presence::has);
    let _ = context.add_function(presence::HAS, has);
    context
}

pub(super) type Answer<'c, 'v> = Result<CowVal<'c, 'v>, ExecutionError>;
type Function = Box<dyn for<'c, 'v> Fn(&mut FunctionContext<'c, 'v>) -> Answer<'c, 'v> + Send + Sync>;

/// One argument in, the same out.
fn spend(meter: Meter) -> Function {
    Box::new(move |call| {
        let value = call.args.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
        meter.spend_on(value.as_ref())?;
        Ok(value)
    })
}

fn argument(meter: Meter) -> Function {
    Box::new(move |call| {
        let value = call.args.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
        meter.spend_on(value.as_ref())?;
        Ok(plain(value))
    })
}

fn compared(operator: &'static str, meter: Meter) -> Function {
    Box::new(move |call| {
        for value in &call.args {
            meter.spend_on(value.as_ref())?;
        }
        compare::compare(operator, call)
    })
}

/// `string(…)`: of a number that was written, what was written.
fn string<'c, 'v>(call: &mut FunctionContext<'c, 'v>) -> Answer<'c, 'v> {
    if let Some(written) = call.args.first().and_then(|value| value.downcast_ref::<WrittenNumber>()) {
        return Ok(CowVal::owned(CelString::from(written.text().to_owned())));
    }
    times::standard("string", call)
}

fn calculate(operator: &'static str, meter: Meter) -> Function {
    Box::new(move |call| {
        for value in &call.args {
            meter.spend_on(value.as_ref())?;
        }
        arithmetic::calculate(operator, call)
    })
}

/// What a comprehension goes over: the keys of a map in order, whatever order the map keeps them in.
fn range(meter: Meter) -> Function {
    Box::new(move |call| {
        let value = call.args.pop().ok_or_else(ExecutionError::missing_argument_or_target)?;
        meter.spend_on(value.as_ref())?;
        let Some(map) = value.downcast_ref::<CelMap>() else { return Ok(value) };
        let mut keys: Vec<_> = map.inner().keys().cloned().collect();
        keys.sort();
        let keys: Vec<Box<dyn Val + '_>> = keys.into_iter().map(|key| key.inner().clone_as_boxed()).collect();
        Ok(CowVal::owned(CelList::from(keys)))
    })
}

/// `matches` with a limit on the pattern's size, and each pattern compiled once.
fn matches(meter: Meter) -> Function {
    Box::new(move |call| {
        let text = call.args.first().and_then(|value| value.downcast_ref::<CelString>());
        let pattern = call.args.get(1).and_then(|value| value.downcast_ref::<CelString>());
        let (Some(text), Some(pattern)) = (text, pattern) else {
            let types = call.args.iter().map(|value| value.get_type().name().to_owned()).collect();
            return Err(ExecutionError::no_such_member_overload("matches", types));
        };
        meter.spend((text.inner().len() + pattern.inner().len()) as u64 / MATCHED_BYTES_PER_UNIT + 1)?;
        let found = meter.pattern(pattern.inner())?.is_match(text.inner());
        Ok(CowVal::owned(CelBool::from(found)))
    })
}

/// The tree with everything that costs counted.
pub(super) fn metered(mut tree: IdedExpr) -> IdedExpr {
    meter(&mut tree);
    tree
}

fn meter(node: &mut IdedExpr) {
    super::walk::children_mut(node).into_iter().for_each(meter);
    match &mut node.expr {
        Expr::Call(call) => meter_call(call),
        Expr::Comprehension(it) => meter_comprehension(it),
        Expr::List(list) => list.elements.iter_mut().for_each(count),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    count_as(&mut entry.key, ARGUMENT);
                    count(&mut entry.value);
                }
            }
        }
        _ => {}
    }
}

fn meter_call(call: &mut CallExpr) {
    match call.func_name.as_str() {
        // These look at a boolean or at one element.
        operators::CONDITIONAL
        | operators::LOGICAL_AND
        | operators::LOGICAL_OR
        | operators::LOGICAL_NOT
        | operators::NOT_STRICTLY_FALSE
        | presence::HAS
        | SPEND => {}
        operators::INDEX => call.args.iter_mut().skip(1).for_each(|key| count_as(key, ARGUMENT)),
        // What passes through these stays as it was written.
        operators::NEGATE | "dyn" | "type" => call.args.iter_mut().for_each(count),
        "string" if call.target.is_none() => {
            call.args.iter_mut().for_each(count);
            call.func_name = STRING.to_owned();
        }
        "matches" if call.args.len() + usize::from(call.target.is_some()) == 2 => {
            if let Some(target) = call.target.take() {
                call.args.insert(0, *target);
            }
            call.func_name = MATCHES.to_owned();
        }
        name => match arithmetic::stand_in(name).or_else(|| compare::stand_in(name)) {
            // It counts what it is given.
            Some(name) => call.func_name = name.to_owned(),
            None => {
                let arguments = call.target.as_deref_mut().into_iter().chain(&mut call.args);
                arguments.for_each(|argument| count_as(argument, ARGUMENT));
                if let (None, Some(name)) = (&call.target, times::stand_in(&call.func_name)) {
                    call.func_name = name.to_owned();
                }
            }
        },
    }
}

fn meter_comprehension(it: &mut ComprehensionExpr) {
    wrap(&mut it.iter_range, RANGE);
    // `map` and `filter` append in place as long as their shape is untouched: `accu + [x]`, `cond ? accu + [x] : accu`.
    // What they append, and the condition, is counted inside.
    let accu = it.accu_var.clone();
    match appended(&mut it.loop_step, &accu) {
        Some(parts) => parts.into_iter().for_each(count),
        None => wrap(&mut it.loop_cond, SPEND),
    }
}

/// The parts of an appending step that are evaluated each time.
fn appended<'a>(step: &'a mut IdedExpr, accu: &str) -> Option<Vec<&'a mut IdedExpr>> {
    let is_append = |node: &IdedExpr| match &node.expr {
        Expr::Call(call) if call.func_name == arithmetic::ADD => {
            matches!(call.args.as_slice(), [left, right]
                if is_name(left, accu) && matches!(right.expr, Expr::List(_)))
        }
        _ => false,
    };
    let Expr::Call(call) = &step.expr else { return None };
    let guarded = call.func_name == operators::CONDITIONAL
        && matches!(call.args.as_slice(), [_, add, other] if is_append(add) && is_name(other, accu));
    if !guarded && !is_append(step) {
        return None;
    }
    let Expr::Call(call) = &mut step.expr else { return None };
    if !guarded {
        strip(call);
        return Some(Vec::new());
    }
    let [guard, add, _] = call.args.as_mut_slice() else { return None };
    if let Expr::Call(add) = &mut add.expr {
        strip(add);
    }
    Some(vec![guard])
}

/// The operator itself, which appends in place: the element inside is counted already.
fn strip(add: &mut CallExpr) {
    add.func_name = operators::ADD.to_owned();
}

fn is_name(node: &IdedExpr, name: &str) -> bool {
    matches!(&node.expr, Expr::Ident(ident) if ident == name)
}

fn count(node: &mut IdedExpr) {
    count_as(node, SPEND);
}

fn count_as(node: &mut IdedExpr, function: &str) {
    if !matches!(node.expr, Expr::Literal(_)) {
        wrap(node, function);
    }
}

fn wrap(node: &mut IdedExpr, function: &str) {
    let inner = std::mem::take(node);
    node.id = inner.id;
    node.expr = Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args: vec![inner] });
}
