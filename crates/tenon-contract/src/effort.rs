//! Bounds the work that checking a payload can take.
//!
//! A validator visits a value once for every way that leads to it: through each branch of a union, each
//! `allOf`, each reference. A few lines of schema can make that exponential, and a chain of references can
//! exhaust the stack. So the visits are counted first, which is cheap because equal pairs of schema and
//! value cost the same. Most schemas are so small that there is nothing to count.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use serde_json::{Map, Value};

use crate::Draft;
use crate::keywords::{Holds, Known, look_up};
use crate::pointer::join;
use crate::schema_error::Problem;
use crate::strict_walk::Survey;

/// Visits that one payload may cost: a second or two, and the violations found on the way fit in memory.
const MAX_VISITS: u64 = 5_000_000;
/// Visits per value that need no counting: at this price even a large payload is checked in no time.
const FREE_VISITS: u64 = 10_000;
/// Visits inside visits. A stack of 2 MiB, as threads have it, holds more even in a debug build.
const MAX_STACK: u32 = 1000;

#[derive(Debug)]
pub(crate) enum Effort {
    /// Whatever comes, it will not be too much.
    Small,
    Counted(Graph),
}

impl Effort {
    /// Refuses schemas that no payload could be checked against.
    pub fn new(source: &Value, draft: Draft, survey: &Survey) -> Result<Effort, Problem> {
        let graph = Graph::new(source, draft, survey);
        match graph.without_values() {
            Some(total) if total.recursive || total.visits > FREE_VISITS => {}
            Some(_) => return Ok(Effort::Small),
            None => {}
        }
        let smallest = Value::Object(Map::new());
        let mut known = Visits::default();
        for (node, pointer) in graph.pointers.iter().enumerate() {
            match graph.visit(node, &smallest, 0, &mut known) {
                Some(cost) if cost.recursive => {
                    let message =
                        "the schema refers to itself without going into the value, so it decides nothing";
                    return Err(Problem::new(pointer, message));
                }
                Some(cost) if cost.visits <= MAX_VISITS => {}
                _ => {
                    let message =
                        "references and branches lead on and on here, too far for any value to be checked";
                    return Err(Problem::new(pointer, message));
                }
            }
        }
        Ok(Effort::Counted(graph))
    }

    pub fn can_check(&self, payload: &Value) -> bool {
        match self {
            Effort::Small => true,
            Effort::Counted(graph) => graph.can_check(payload),
        }
    }
}

/// Which schema is applied where, as far as it matters for counting.
#[derive(Debug)]
pub(crate) struct Graph {
    /// The root comes first.
    nodes: Vec<Node>,
    pointers: Vec<String>,
}

#[derive(Debug, Default)]
struct Node {
    /// Schemas for the same value.
    same: Vec<usize>,
    properties: HashMap<String, usize>,
    /// For properties that `properties` does not name.
    other_properties: Vec<usize>,
    every_property: Vec<usize>,
    first_items: Vec<usize>,
    other_items: Vec<usize>,
    every_item: Vec<usize>,
}

#[derive(Clone, Copy, Default)]
struct Cost {
    visits: u64,
    stack: u32,
    /// A schema was met again inside itself.
    recursive: bool,
}

impl Cost {
    fn add(&mut self, part: Cost) {
        self.visits = self.visits.saturating_add(part.visits);
        self.stack = self.stack.max(part.stack + 1);
        self.recursive |= part.recursive;
    }
}

impl Graph {
    fn new(source: &Value, draft: Draft, survey: &Survey) -> Graph {
        let mut pointers: Vec<String> = survey.schemas.iter().cloned().collect();
        // Shortest first puts the root, whose pointer is empty, in front; the rest makes the order certain.
        pointers.sort_by(|left, right| (left.len(), left).cmp(&(right.len(), right)));
        let index: HashMap<&str, usize> =
            pointers.iter().enumerate().map(|(index, pointer)| (pointer.as_str(), index)).collect();
        let nodes = pointers
            .iter()
            .map(|pointer| match source.pointer(pointer) {
                Some(Value::Object(members)) => Node::new(members, pointer, draft, survey, &index),
                _ => Node::default(),
            })
            .collect();
        Graph { nodes, pointers }
    }

    /// The cost of a value that has every form at once, each once. `None` if that cannot even be counted.
    fn without_values(&self) -> Option<Cost> {
        let mut known = vec![Visit::Never; self.nodes.len()];
        self.unfold(0, 0, &mut known)
    }

    fn unfold(&self, node: usize, depth: u32, known: &mut [Visit]) -> Option<Cost> {
        match known[node] {
            Visit::Done(cost) => return Some(cost),
            Visit::Open => return Some(Cost { visits: 1, stack: 1, recursive: true }),
            Visit::Never if depth > MAX_STACK => return None,
            Visit::Never => known[node] = Visit::Open,
        }
        let mut cost = Cost { visits: 1, stack: 1, recursive: false };
        for next in self.nodes[node].all() {
            cost.add(self.unfold(next, depth + 1, known)?);
        }
        if cost.stack > MAX_STACK {
            return None;
        }
        known[node] = Visit::Done(cost);
        Some(cost)
    }

    fn can_check(&self, payload: &Value) -> bool {
        let mut known = Visits::default();
        self.visit(0, payload, 0, &mut known).is_some_and(|cost| cost.visits <= MAX_VISITS)
    }

    fn visit(&self, node: usize, value: &Value, depth: u32, known: &mut Visits) -> Option<Cost> {
        let schema = &self.nodes[node];
        if schema.is_leaf() {
            return Some(Cost { visits: 1, stack: 1, recursive: false });
        }
        // To a schema all values that hold no others are the same.
        let place =
            if value.is_object() || value.is_array() { std::ptr::from_ref(value) } else { std::ptr::null() };
        let key = Pair(node, place as usize);
        match known.get(&key) {
            Some(Visit::Done(cost)) => return Some(*cost),
            // The schema waits for its own verdict on the same value.
            Some(Visit::Open) => return Some(Cost { visits: 1, stack: 1, recursive: true }),
            Some(Visit::Never) | None => {}
        }
        if depth > MAX_STACK || known.len() as u64 > MAX_VISITS {
            return None;
        }
        known.insert(key, Visit::Open);
        let mut cost = Cost { visits: 1, stack: 1, recursive: false };
        for next in &schema.same {
            cost.add(self.visit(*next, value, depth + 1, known)?);
        }
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let named = schema.properties.get(name);
                    let others = if named.is_some() { &[][..] } else { &schema.other_properties };
                    for next in named.into_iter().chain(others).chain(&schema.every_property) {
                        cost.add(self.visit(*next, member, depth + 1, known)?);
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let first = schema.first_items.get(index);
                    let others = if first.is_some() { &[][..] } else { &schema.other_items };
                    for next in first.into_iter().chain(others).chain(&schema.every_item) {
                        cost.add(self.visit(*next, item, depth + 1, known)?);
                    }
                }
            }
            _ => {}
        }
        if cost.stack > MAX_STACK {
            return None;
        }
        known.insert(key, Visit::Done(cost));
        Some(cost)
    }
}

type Visits = HashMap<Pair, Visit, BuildHasherDefault<PairHasher>>;

/// A schema and the address of the value it is applied to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pair(usize, usize);

impl Hash for Pair {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_usize(self.0);
        hasher.write_usize(self.1);
    }
}

/// Addresses and small numbers need no protection from whoever chose them, only to be spread.
#[derive(Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_usize(usize::from(*byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        // The golden ratio in 64 bits, whose multiples are far apart.
        self.0 = (self.0.rotate_left(26) ^ number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }
}

#[derive(Clone, Copy)]
enum Visit {
    Never,
    Open,
    Done(Cost),
}

impl Node {
    fn new(
        members: &Map<String, Value>,
        pointer: &str,
        draft: Draft,
        survey: &Survey,
        index: &HashMap<&str, usize>,
    ) -> Node {
        let mut node = Node::default();
        for (name, value) in members {
            let Known::Here(keyword) = look_up(name, draft) else { continue };
            let at = join(pointer, name);
            let inside: Vec<(String, usize)> = match (keyword.holds, value) {
                (Holds::Reference, _) => {
                    let target = survey.targets.get(&at).and_then(|target| index.get(target.as_str()));
                    node.same.extend(target);
                    continue;
                }
                (_, Value::Object(map)) if is_map(keyword.holds) => map
                    .keys()
                    .filter_map(|key| Some((key.clone(), *index.get(join(&at, key).as_str())?)))
                    .collect(),
                (_, Value::Array(list)) => (0..list.len())
                    .filter_map(|at_index| {
                        let key = at_index.to_string();
                        let found = *index.get(join(&at, &key).as_str())?;
                        Some((key, found))
                    })
                    .collect(),
                _ => index.get(at.as_str()).map(|found| (String::new(), *found)).into_iter().collect(),
            };
            let found = inside.iter().map(|(_, found)| *found).collect::<Vec<_>>();
            match keyword.name {
                "properties" => node.properties = inside.into_iter().collect(),
                "additionalProperties" | "unevaluatedProperties" => node.other_properties.extend(found),
                "patternProperties" | "propertyNames" => node.every_property.extend(found),
                "prefixItems" => node.first_items.extend(found),
                "items" if value.is_array() => node.first_items.extend(found),
                "items" | "additionalItems" => node.other_items.extend(found),
                "contains" | "unevaluatedItems" => node.every_item.extend(found),
                "$defs" | "definitions" | "contentSchema" => {}
                _ => node.same.extend(found),
            }
        }
        // What is unevaluated is found out by going through the branches again.
        if members.contains_key("unevaluatedProperties") || members.contains_key("unevaluatedItems") {
            node.same.extend(node.same.clone());
        }
        node
    }

    fn is_leaf(&self) -> bool {
        self.all().next().is_none()
    }

    fn all(&self) -> impl Iterator<Item = usize> + '_ {
        self.same
            .iter()
            .chain(self.properties.values())
            .chain(&self.other_properties)
            .chain(&self.every_property)
            .chain(&self.first_items)
            .chain(&self.other_items)
            .chain(&self.every_item)
            .copied()
    }
}

fn is_map(holds: Holds) -> bool {
    matches!(holds, Holds::SchemaMap | Holds::PatternMap | Holds::Dependencies)
}
