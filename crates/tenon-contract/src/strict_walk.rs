//! Walks a schema keyword by keyword and notes everything that is wrong with it, or worth a warning.
//!
//! A JSON Schema validator ignores what it does not know, so a typo makes a contract that checks nothing.
//! This walk knows where keywords may stand and where names and data stand instead. Whether the root can
//! describe an object is decided in `root.rs`, where references lead in `references.rs`.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use crate::keyword_value::{fault, names_fault, shape_fault};
use crate::keywords::{self, Holds, Keyword, Known, Role};
use crate::pointer::{join, type_name};
use crate::references::{self, Reference};
use crate::schema_error::Problem;
use crate::{Draft, formats, pattern, show};

/// What the walk found.
#[derive(Default)]
pub(crate) struct Survey {
    pub problems: Vec<Problem>,
    pub warnings: Vec<String>,
    /// Names that the schema itself gives to properties: what may be stored when a payload is refused.
    pub property_names: HashSet<String>,
    pub formats: BTreeSet<String>,
    /// Regular expressions, at the pointer of the `pattern` or of the key in `patternProperties`.
    pub patterns: Vec<(String, String)>,
    pub edits: Vec<Edit>,
    /// The pointers of all schemas in it.
    pub schemas: HashSet<String>,
    pub references: Vec<Reference>,
    /// Where references lead, by the pointer they stand at.
    pub targets: HashMap<String, String>,
}

/// A change between the schema a person wrote and the one the validator compiles.
pub(crate) enum Edit {
    /// The string at this pointer is replaced: a pattern in the engine's own syntax.
    Text { pointer: String, new: String },
    /// A key of the object at this pointer is renamed, for the same reason.
    Key { pointer: String, old: String, new: String },
    /// The member is taken out of the object at this pointer.
    Remove { pointer: String, key: &'static str },
}

pub(crate) fn survey(root: &Value, draft: Draft) -> Survey {
    let mut walk = Walk {
        root,
        draft,
        declared: root.get("$schema").is_some(),
        found: Survey::default(),
        anchors: HashMap::new(),
        nested_ids: false,
        annotations: BTreeSet::new(),
    };
    walk.schema(root, "");
    walk.follow_references();
    walk.sum_up_warnings();
    walk.found
}

struct Walk<'a> {
    root: &'a Value,
    draft: Draft,
    /// Whether the draft was named, or is the default.
    declared: bool,
    found: Survey,
    /// Where each anchor is.
    anchors: HashMap<String, String>,
    /// A subschema with an `$id` starts a document of its own, in which references are resolved.
    nested_ids: bool,
    annotations: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    fn problem(&mut self, problem: Problem) {
        self.found.problems.push(problem);
    }

    fn schema(&mut self, schema: &'a Value, pointer: &str) {
        if !self.found.schemas.insert(pointer.to_owned()) {
            return;
        }
        match schema {
            Value::Object(members) => self.members(members, pointer),
            Value::Bool(accepts) if self.draft == Draft::Draft04 => {
                let instead = if *accepts { "{}" } else { r#"{"not":{}}"# };
                self.problem(
                    Problem::new(pointer, format!("`{accepts}` is not a schema in draft-04"))
                        .hint(format!("write `{instead}` instead of `{accepts}`")),
                );
            }
            Value::Bool(_) => {}
            other => {
                let message = format!("expected a schema (an object or a boolean), got {}", type_name(other));
                self.problem(Problem::new(pointer, message));
            }
        }
    }

    fn members(&mut self, members: &'a Map<String, Value>, pointer: &str) {
        for (name, value) in members {
            let at = join(pointer, name);
            match keywords::look_up(name, self.draft) {
                Known::Here(keyword) => self.keyword(keyword, value, pointer, &at),
                Known::Extension => {}
                Known::Annotation => {
                    self.annotations.insert(name.clone());
                }
                Known::Elsewhere(keyword) if keyword.role == Role::Describes => {
                    self.annotations.insert(name.clone());
                }
                Known::Elsewhere(keyword) => self.wrong_draft(keyword, &at),
                Known::Forgotten(successor) => {
                    let message =
                        format!("`{name}` is not a keyword since draft-04; its successor is {successor}");
                    self.problem(Problem::new(at, message));
                }
                Known::Unknown => self.unknown(name, value, members, at),
            }
        }
        self.neighbours(members, pointer);
    }

    fn keyword(&mut self, keyword: &Keyword, value: &'a Value, parent: &str, at: &str) {
        let name = keyword.name;
        if let Some(fault) = fault(name, keyword.holds, value, self.draft) {
            self.problem(Problem::new(at, fault));
            return;
        }
        match (keyword.holds, value) {
            (Holds::Schema, _) => self.single_schema(name, value, at),
            (Holds::SchemaOrFlag, Value::Bool(_)) => {}
            (Holds::SchemaOrFlag, _) => self.schema(value, at),
            (Holds::SchemaOrList, Value::Array(_)) | (Holds::SchemaList, _) => {
                self.schema_list(name, value, at)
            }
            (Holds::SchemaOrList, _) => self.schema(value, at),
            (Holds::SchemaMap, _) => self.schema_map(name, value, at),
            (Holds::PatternMap, _) => self.pattern_map(name, value, at),
            (Holds::Dependencies | Holds::NamesMap, _) => self.dependencies(keyword, value, at),
            (Holds::Names, Value::Array(names)) => self.note_names(names),
            (Holds::Format, Value::String(format)) => {
                self.found.formats.insert(format.clone());
            }
            (Holds::Pattern, Value::String(pattern)) => {
                if let Some(new) = self.pattern(pattern, at) {
                    self.found.edits.push(Edit::Text { pointer: at.to_owned(), new });
                }
            }
            (Holds::Reference, Value::String(target)) => {
                self.found.references.push(Reference { pointer: at.to_owned(), target: target.clone() });
            }
            (Holds::Text, Value::String(text)) => self.identity(name, text, parent, at),
            _ => {}
        }
    }

    fn single_schema(&mut self, name: &str, value: &'a Value, at: &str) {
        if name == "items" && value.is_array() {
            let message =
                "a list of schemas in `items` is not a keyword of 2020-12; its successor is `prefixItems`";
            self.problem(Problem::new(at, message).hint(self.declare_hint(Draft::Draft07)));
            return;
        }
        self.schema(value, at);
    }

    fn schema_list(&mut self, name: &str, value: &'a Value, at: &str) {
        match value.as_array() {
            None => {
                let message = shape_fault(name, "an array of schemas", value);
                self.problem(Problem::new(at, message));
            }
            Some(list) if list.is_empty() && name != "items" => {
                self.problem(Problem::new(at, format!("`{name}` needs at least one schema")));
            }
            Some(list) => {
                for (index, item) in list.iter().enumerate() {
                    self.schema(item, &join(at, &index.to_string()));
                }
            }
        }
    }

    fn schema_map(&mut self, name: &str, value: &'a Value, at: &str) {
        let Some(map) = value.as_object() else {
            let message = shape_fault(name, "an object whose values are schemas", value);
            self.problem(Problem::new(at, message));
            return;
        };
        for (key, schema) in map {
            if matches!(name, "properties" | "dependentSchemas") {
                self.found.property_names.insert(key.clone());
            }
            self.schema(schema, &join(at, key));
        }
    }

    fn pattern_map(&mut self, name: &str, value: &'a Value, at: &str) {
        let Some(map) = value.as_object() else {
            let message = shape_fault(name, "an object whose keys are regular expressions", value);
            self.problem(Problem::new(at, message));
            return;
        };
        for (key, schema) in map {
            let here = join(at, key);
            if let Some(new) = self.pattern(key, &here) {
                self.found.edits.push(Edit::Key { pointer: at.to_owned(), old: key.clone(), new });
            }
            self.schema(schema, &here);
        }
    }

    fn dependencies(&mut self, keyword: &Keyword, value: &'a Value, at: &str) {
        let name = keyword.name;
        let Some(map) = value.as_object() else {
            let message = shape_fault(name, "an object whose keys are property names", value);
            self.problem(Problem::new(at, message));
            return;
        };
        for (key, dependency) in map {
            self.found.property_names.insert(key.clone());
            let here = join(at, key);
            match dependency {
                Value::Array(names) => match names_fault(name, dependency, self.draft) {
                    Some(fault) => self.problem(Problem::new(here, fault)),
                    None => self.note_names(names),
                },
                _ if keyword.holds == Holds::Dependencies => self.schema(dependency, &here),
                other => {
                    let message =
                        format!("`{name}` must hold arrays of property names, got {}", type_name(other));
                    self.problem(Problem::new(here, message));
                }
            }
        }
    }

    /// Checks a regular expression; gives it in the engine's syntax if that is another one.
    fn pattern(&mut self, text: &str, at: &str) -> Option<String> {
        self.found.patterns.push((at.to_owned(), text.to_owned()));
        match pattern::to_engine(text) {
            Ok(new) => (new != text).then_some(new),
            Err(refused) => {
                let mut problem =
                    Problem::new(at, format!("the pattern `{}` {}", show::cut(text, 200), refused.reason));
                problem.hint = refused.hint;
                self.problem(problem);
                None
            }
        }
    }

    fn identity(&mut self, name: &str, text: &str, parent: &str, at: &str) {
        match name {
            "$anchor" | "$dynamicAnchor" => {
                self.anchors.insert(text.to_owned(), parent.to_owned());
            }
            "$id" | "id" => match text.strip_prefix('#') {
                Some(anchor) => {
                    self.anchors.insert(anchor.to_owned(), parent.to_owned());
                }
                None => self.nested_ids |= !parent.is_empty(),
            },
            "$schema" => {
                // The validator is told the draft; the address may be spelt in a way it does not know.
                self.found.edits.push(Edit::Remove { pointer: parent.to_owned(), key: "$schema" });
                if !parent.is_empty() && Draft::from_uri(text) != Some(self.draft) {
                    let message = format!(
                        "a part of a schema cannot be in another draft than the whole, {}",
                        self.draft.name()
                    );
                    self.problem(Problem::new(at, message));
                }
            }
            _ => {}
        }
    }

    fn note_names(&mut self, names: &[Value]) {
        self.found.property_names.extend(names.iter().filter_map(Value::as_str).map(str::to_owned));
    }

    fn wrong_draft(&mut self, keyword: &Keyword, at: &str) {
        let (name, draft) = (keyword.name, self.draft.name());
        let since =
            if self.declared { String::new() } else { format!(" ({draft} is meant without `$schema`)") };
        let problem = if keyword.until < self.draft {
            let message =
                format!("`{name}` is not a keyword of {draft}{since}; its successor is {}", keyword.instead);
            Problem::new(at, message).hint(self.declare_hint(keyword.until))
        } else {
            let instead = match keyword.instead {
                "" => String::new(),
                instead => format!("; in {draft} it is {instead}"),
            };
            let message = format!("`{name}` came with {}, after {draft}{instead}", keyword.since.name());
            Problem::new(at, message).hint(self.declare_hint(keyword.since))
        };
        self.problem(problem);
    }

    fn declare_hint(&self, draft: Draft) -> String {
        let verb = if self.declared { "change `$schema` to" } else { "add" };
        let value = if self.declared {
            format!("`{}`", draft.uri())
        } else {
            format!("`\"$schema\": \"{}\"`", draft.uri())
        };
        format!("to keep the schema in {}, {verb} {value}", draft.name())
    }

    fn unknown(&mut self, name: &str, value: &Value, members: &Map<String, Value>, at: String) {
        let wrapper =
            ["schema", "json_schema"].into_iter().any(|key| members.get(key).is_some_and(Value::is_object));
        let near = show::nearest(name, keywords::names(self.draft)).filter(|_| !wrapper);
        let problem = match near {
            Some(near) => Problem::new(at, format!("unknown keyword `{name}`, did you mean `{near}`?")),
            None => {
                let problem = Problem::new(at, format!("unknown keyword `{name}`"));
                problem.hint(if wrapper {
                    "this looks like a request format around a schema: pass only the schema inside it"
                        .to_owned()
                } else if value.is_object() {
                    format!("if `{name}` is a property, it belongs inside `properties`")
                } else {
                    "keywords of your own start with `x-`".to_owned()
                })
            }
        };
        self.problem(problem);
    }

    /// What depends on several keywords of one schema.
    fn neighbours(&mut self, members: &Map<String, Value>, pointer: &str) {
        let has = |name: &str| members.contains_key(name);
        if self.draft.ref_hides_siblings()
            && !pointer.is_empty()
            && members.get("$ref").is_some_and(Value::is_string)
        {
            let hidden: Vec<String> = members
                .keys()
                .filter(|name| *name != "$ref" && !keywords::does_not_constrain(name, self.draft))
                .map(|name| format!("`{name}`"))
                .collect();
            if !hidden.is_empty() {
                let message =
                    format!("{} has no effect beside `$ref` in {}", hidden.join(", "), self.draft.name());
                let hint = format!("write `{}`", references::all_of_form(members));
                self.problem(Problem::new(pointer, message).hint(hint));
            }
        }
        let place = crate::pointer::shown(pointer);
        let mut without = |present: bool, keyword: &str, partner: &str| {
            if present {
                self.found.warnings.push(format!("`{keyword}` at `{place}` has no effect without {partner}"));
            }
        };
        without(has("if") && !has("then") && !has("else"), "if", "`then` or `else`");
        without(has("then") && !has("if"), "then", "`if`");
        without(has("else") && !has("if"), "else", "`if`");
        without(has("minContains") && !has("contains"), "minContains", "`contains`");
        without(has("maxContains") && !has("contains"), "maxContains", "`contains`");
        // In draft-04 these say how the bound beside them is meant.
        for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            let is_flag = members.get(flag).is_some_and(Value::is_boolean);
            without(is_flag && !has(bound), flag, &format!("`{bound}`"));
        }
        without(
            has("additionalItems") && !members.get("items").is_some_and(Value::is_array),
            "additionalItems",
            "a list of schemas in `items`",
        );
    }

    /// A reference may lead to a place that is no keyword's, such as below an `x-` keyword: what is there
    /// becomes part of the contract and is walked as well.
    fn follow_references(&mut self) {
        let mut next = 0;
        while next < self.found.references.len() {
            let reference = self.found.references[next].clone();
            next += 1;
            match references::resolve(&reference, self.root, &self.anchors, self.nested_ids) {
                Ok(Some(pointer)) => {
                    if let Some(target) = self.root.pointer(&pointer) {
                        self.schema(target, &pointer);
                        self.found.targets.insert(reference.pointer, pointer);
                    }
                }
                Ok(None) => {}
                Err(problem) => self.problem(problem),
            }
        }
    }

    fn sum_up_warnings(&mut self) {
        if !self.annotations.is_empty() {
            let names: Vec<String> = self.annotations.iter().map(|name| format!("`{name}`")).collect();
            let (verb, object) = if names.len() == 1 { ("does", "is") } else { ("do", "are") };
            let mut warning =
                format!("{} {verb} not constrain the value and {object} only passed on", names.join(", "));
            if self.annotations.contains("nullable") {
                warning.push_str("; to allow null, write `\"type\": [\"string\", \"null\"]`");
            }
            self.found.warnings.push(warning);
        }
        let unknown: Vec<String> = self
            .found
            .formats
            .iter()
            .filter(|format| !formats::KNOWN.contains(&format.as_str()))
            .map(|format| format!("`{}`", show::cut(format, 60)))
            .collect();
        if !unknown.is_empty() {
            let word = if unknown.len() == 1 { "format" } else { "formats" };
            let verb = if unknown.len() == 1 { "is" } else { "are" };
            self.found.warnings.push(format!("unknown {word} {} {verb} not checked", unknown.join(", ")));
        }
    }
}
