//! A published schema without its tolerance: what it does not name is not valid.
//!
//! Published schemas let fields pass that they do not know, because adding one is no break. A test wants to know of a
//! field that nobody described.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The same schema, with nothing allowed beside what it describes. Objects without described properties stay open.
pub fn strict_schema(schema: &Value) -> Value {
    let mut made = Made { root: schema, defs: BTreeMap::new() };
    let Value::Object(mut top) = made.whole(schema) else { return schema.clone() };
    top.remove("$defs");
    let defs = made.defs.into_iter().filter_map(|(name, def)| Some((name, def?)));
    top.insert("$defs".to_owned(), Value::Object(defs.collect()));
    Value::Object(top)
}

struct Made<'a> {
    root: &'a Value,
    /// `None` while one is being made: definitions may refer to themselves.
    defs: BTreeMap<String, Option<Value>>,
}

/// How much of an object a schema describes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Whole,
    /// Others describe the rest.
    Part,
}

impl Made<'_> {
    fn whole(&mut self, schema: &Value) -> Value {
        self.make(schema, Extent::Whole)
    }

    fn make(&mut self, schema: &Value, extent: Extent) -> Value {
        let Value::Object(fields) = schema else { return schema.clone() };
        let describes = fields.contains_key("properties");
        // Beside properties of its own, what it refers to describes the same object.
        let of_others = if describes { Extent::Part } else { extent };
        let mut strict = Map::new();
        for (key, value) in fields {
            let value = match key.as_str() {
                "$ref" => value.as_str().map_or(value.clone(), |target| self.reference(target, of_others)),
                "anyOf" | "oneOf" | "allOf" => self.each(value, of_others),
                "properties" => self.members(value),
                "items" | "additionalProperties" => self.whole(value),
                "prefixItems" => self.each(value, Extent::Whole),
                _ => value.clone(),
            };
            strict.insert(key.clone(), value);
        }
        if describes && extent == Extent::Whole && !fields.contains_key("additionalProperties") {
            strict.insert("unevaluatedProperties".to_owned(), json!(false));
        }
        Value::Object(strict)
    }

    fn each(&mut self, schemas: &Value, extent: Extent) -> Value {
        match schemas {
            Value::Array(schemas) => schemas.iter().map(|schema| self.make(schema, extent)).collect(),
            other => other.clone(),
        }
    }

    fn members(&mut self, properties: &Value) -> Value {
        match properties {
            Value::Object(properties) => {
                properties.iter().map(|(name, schema)| (name.clone(), self.whole(schema))).collect()
            }
            other => other.clone(),
        }
    }

    fn reference(&mut self, target: &str, extent: Extent) -> Value {
        let Some(name) = target.strip_prefix("#/$defs/") else { return json!(target) };
        let made = match extent {
            Extent::Whole => name.to_owned(),
            Extent::Part => format!("{name}-part"),
        };
        if !self.defs.contains_key(&made) {
            self.defs.insert(made.clone(), None);
            let def = self.make(&self.root["$defs"][name], extent);
            self.defs.insert(made.clone(), Some(def));
        }
        json!(format!("#/$defs/{made}"))
    }
}
