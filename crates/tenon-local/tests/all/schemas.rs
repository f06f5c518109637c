//! Many schemas, several seeds, a model that knows nothing: what comes out fits the schema, or there is none.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tenon_local::Sampling;
use tenon_testkit::{TinyModel, cases};

use crate::model::{arguments, client, run, structured};

const SEEDS: u64 = 3;
/// Of 300, in the usual run of tests; `PROPTEST_CASES` asks for more.
const USUAL: u32 = 60;

struct Class {
    name: &'static str,
    relaxed: bool,
    schemas: Vec<Value>,
}

/// An object with one required property of this schema.
fn of(schema: Value) -> Value {
    json!({"type": "object", "properties": {"value": schema}, "required": ["value"]})
}

fn class(name: &'static str, schemas: impl IntoIterator<Item = Value>) -> Class {
    Class { name, relaxed: false, schemas: schemas.into_iter().collect() }
}

fn relaxed(name: &'static str, schemas: impl IntoIterator<Item = Value>) -> Class {
    Class { relaxed: true, ..class(name, schemas) }
}

fn classes() -> Vec<Class> {
    let types = ["string", "integer", "number", "boolean", "null", "array", "object"];
    let formats =
        ["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri"];
    let others = ["json-pointer", "regex", "iri", "idn-email", "uri-reference", "made-up"];
    vec![
        class("types", types.iter().map(|kind| of(json!({"type": kind})))),
        class("optional", types.iter().map(|kind| json!({"type": "object", "properties": {"a": {"type": kind}, "b": {"type": "string"}}}))),
        class("type lists", (1..7).map(|count| of(json!({"type": types[..=count].to_vec()})))),
        class("integers", (0..32).map(|n| of(json!({"type": "integer", "minimum": n * 7 - 50, "maximum": n * 31})))),
        class("numbers", (0..12).map(|n| of(json!({"type": "number", "minimum": f64::from(n) * 0.25 - 1.0, "exclusiveMaximum": f64::from(n) + 2.5})))),
        class("multiples", (1..9).map(|n| of(json!({"type": "integer", "multipleOf": n, "minimum": 0, "maximum": 1000})))),
        class("lengths", (0..16).map(|n| of(json!({"type": "string", "minLength": n, "maxLength": n + n / 2})))),
        class("patterns", ["^[a-z]+$", "^\\d{3}-\\d{4}$", "^(foo|bar)+$", "^[A-Z]{2}\\d*$", "a+b", "^\\w{1,8}$", "^$", "^[^\\s]+$", "^x|y$", "^\\+?[0-9]{6,12}$", "^[\\w.-]+@[\\w-]+\\.[a-z]{2,4}$", "^#[0-9a-fA-F]{6}$"]
            .map(|pattern| of(json!({"type": "string", "pattern": pattern})))),
        class("enums", (1..13).map(|count| of(json!({"enum": (0..count).map(|n| match n % 5 { 0 => json!(format!("v{n}")), 1 => json!(n), 2 => json!(n == 2), 3 => json!(null), _ => json!(f64::from(n) / 8.0) }).collect::<Vec<_>>()})))),
        class("constants", [json!("x"), json!(1), json!(-2.5), json!(true), json!(null), json!([1, 2]), json!({"a": [{}]}), json!("ünï \"q\" \\ \n")].map(|value| of(json!({"const": value})))),
        class("lists", (0..14).map(|n| of(json!({"type": "array", "items": {"type": types[n % 5]}, "minItems": n / 3, "maxItems": n / 3 + n % 4})))),
        class("long lists", [20, 40].map(|n| of(json!({"type": "array", "items": {"type": "boolean"}, "minItems": n})))),
        class("tuples", (1..9).map(|n| of(json!({"type": "array", "prefixItems": types[..n.min(5)].iter().map(|kind| json!({"type": kind})).collect::<Vec<_>>(), "items": n % 2 == 0, "minItems": n.min(5)})))),
        class("nested", (1..13).map(|depth| (0..depth).fold(json!({"type": "string", "maxLength": 5}), |inner, level| if level % 2 == 0 { of(inner) } else { json!({"type": "array", "items": inner, "maxItems": 2, "minItems": 1}) })).map(of)),
        class("wide", (1..9).map(|n| { let named: serde_json::Map<String, Value> = (0..n * 4).map(|i| (format!("field_{i}"), json!({"type": types[i % 4]}))).collect(); json!({"type": "object", "required": named.keys().step_by(2).collect::<Vec<_>>(), "properties": named, "additionalProperties": false}) })),
        class("maps", types.map(|kind| of(json!({"type": "object", "additionalProperties": {"type": kind}})))),
        class("name patterns", ["^x-", "^[a-z]{3}$", "_id$", "^\\d+$"].map(|pattern| of(json!({"type": "object", "patternProperties": {pattern: {"type": "integer"}}, "additionalProperties": false})))),
        class("choices", (2..12).map(|n| of(json!({"anyOf": types[..n.min(7)].iter().map(|kind| json!({"type": kind})).collect::<Vec<_>>()})))),
        class("disjoint oneOf", (2..8).map(|n| of(json!({"oneOf": (0..n).map(|i| json!({"type": "object", "properties": {"kind": {"const": format!("k{i}")}, "value": {"type": types[i % 5]}}, "required": ["kind", "value"], "additionalProperties": false})).collect::<Vec<_>>()})))),
        class("allOf", (0..8).map(|n| json!({"allOf": [{"type": "object", "properties": {"a": {"type": "integer", "minimum": n}}, "required": ["a"]}, {"type": "object", "properties": {"a": {"maximum": n + 9}, "b": {"type": "string"}}, "required": ["b"]}]}))),
        class("references", (0..8).map(|n| json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/thing"}, "b": {"type": "array", "items": {"$ref": "#/$defs/thing"}, "maxItems": n}}, "required": ["a", "b"], "$defs": {"thing": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}}))),
        class("recursion", [
            json!({"type": "object", "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}}, "required": ["name", "children"]}),
            json!({"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["next"], "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}}),
            json!({"type": "object", "properties": {"tree": {"$ref": "#/$defs/t"}}, "required": ["tree"], "$defs": {"t": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/t"}}]}}}),
            json!({"type": "object", "properties": {"expr": {"$ref": "#/$defs/e"}}, "required": ["expr"], "$defs": {"e": {"anyOf": [{"type": "number"}, {"type": "object", "properties": {"op": {"enum": ["+", "*"]}, "l": {"$ref": "#/$defs/e"}, "r": {"$ref": "#/$defs/e"}}, "required": ["op", "l", "r"], "additionalProperties": false}]}}}),
        ]),
        class("anything", [json!({}), json!({"type": "object"}), json!({"title": "x", "description": "y"}), of(json!({})), of(json!(true))]),
        class("odd names", [json!({"type": "object", "properties": {"a b": {"type": "string"}, "\"": {"type": "integer"}, "ü": {"type": "null"}, "": {"type": "boolean"}, "$ref": {"type": "string"}}, "required": ["a b", "\"", "ü", "", "$ref"]})]),
        relaxed("formats", formats.iter().chain(&others).map(|format| of(json!({"type": "string", "format": format})))),
        relaxed("uniqueItems", (0..14).map(|n| of(json!({"type": "array", "items": {"type": types[n % 4]}, "uniqueItems": true, "minItems": n / 5, "maxItems": 4})))),
        relaxed("overlapping oneOf", (1..8).map(|n| of(json!({"oneOf": [{"type": "integer", "minimum": n}, {"type": "integer", "maximum": n * 3}, {"type": "string"}]})))),
        relaxed("not", [json!({"type": "string"}), json!({"type": ["integer", "null"]}), json!({"const": 1}), json!({"enum": ["a", "b"]}), json!({"required": ["x"]}), json!({"type": "object", "required": ["a"]})].map(|not| of(json!({"not": not})))),
        relaxed("not in", (0..4).map(|n| of(json!({"type": "integer", "minimum": 0, "maximum": 9, "not": {"const": n}})))),
        relaxed("if then else", (0..8).map(|n| json!({"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer"}}, "required": ["kind"], "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["n"], "properties": {"n": {"minimum": n}}}, "else": {"properties": {"m": {"type": "string"}}, "required": ["m"]}}))),
        relaxed("contains", (1..9).map(|n| of(json!({"type": "array", "contains": {"type": "integer", "minimum": n}, "minContains": n % 3 + 1, "maxItems": 6})))),
        relaxed("property names", [json!({"pattern": "^[a-z]{2,5}$"}), json!({"enum": ["a", "b"]}), json!({"maxLength": 4}), json!({"minLength": 2})].map(|names| of(json!({"type": "object", "propertyNames": names, "additionalProperties": {"type": "integer"}, "minProperties": 1})))),
        relaxed("dependent", (0..6).map(|n| json!({"type": "object", "properties": {"card": {"type": "integer"}, "address": {"type": "string", "maxLength": 9}, "zip": {"type": "string", "maxLength": 5}}, "required": if n % 2 == 0 { vec!["card"] } else { vec![] }, "dependentRequired": {"card": ["address"]}, "dependentSchemas": {"address": {"required": ["zip"]}}}))),
        relaxed("unevaluated", (0..4).map(|n| json!({"type": "object", "allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}], "properties": {"b": {"type": types[n]}}, "unevaluatedProperties": false}))),
        relaxed("numbers of properties", (1..6).map(|n| of(json!({"type": "object", "additionalProperties": {"type": "boolean"}, "minProperties": n, "maxProperties": n + 1})))),
        relaxed("all at once", (0..4).map(|n| json!({"type": "object", "properties": {"id": {"type": "string", "format": "uuid"}, "tags": {"type": "array", "items": {"enum": ["a", "b", "c", "d"]}, "uniqueItems": true, "maxItems": 2}, "due": {"type": "string", "format": "date"}, "owner": {"oneOf": [{"type": "string", "maxLength": 8}, {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}]}, "n": {"type": "integer", "minimum": n, "not": {"const": n}}}, "required": ["id", "tags", "due", "owner", "n"], "additionalProperties": false}))),
    ]
}

#[derive(Default)]
struct Row {
    runs: u64,
    payloads: u64,
    invalid: u64,
    relaxed: bool,
}

#[test]
fn every_payload_fits_its_schema() {
    let folder = tempfile::tempdir().unwrap();
    let all = classes();
    let count: usize = all.iter().map(|class| class.schemas.len()).sum();
    assert!(count >= 300, "{count}");
    let share = (f64::from(cases(USUAL)) / 300.0).min(1.0);
    let mut table: BTreeMap<&str, Row> = BTreeMap::new();
    let mut missing = Vec::new();
    for seed in 0..SEEDS {
        let file = folder.path().join(format!("{seed}.gguf"));
        std::fs::write(&file, TinyModel::new(seed).bytes()).unwrap();
        let notices = Arc::new(Mutex::new(Vec::new()));
        let model = client(&file, Sampling::Chance { temperature: 1.0, top_p: 1.0, seed }, notices);
        for class in &all {
            let take = (class.schemas.len() as f64 * share).ceil() as usize;
            let row = table.entry(class.name).or_default();
            row.relaxed = class.relaxed;
            // Others with every seed, so that a short run sees many.
            for schema in class.schemas.iter().cycle().skip(seed as usize * take).take(take) {
                tenon_contract::Schema::compile(&schema.to_string())
                    .unwrap_or_else(|error| panic!("{error}: {schema}"));
                let validator =
                    jsonschema::options().should_validate_formats(true).build(schema).expect("a schema");
                let deltas = run(&model, structured("fill it in", schema));
                row.runs += 1;
                let Some(text) = arguments(&deltas) else {
                    missing.push(format!("{}: {schema}: {:?}", class.name, deltas.last()));
                    continue;
                };
                let value = serde_json::from_str::<Value>(&text);
                match value {
                    Ok(value) if value.is_object() && validator.is_valid(&value) => row.payloads += 1,
                    // The run tells the model and asks again; nothing of this is printed.
                    _ if class.relaxed => missing.push(format!("{}: {schema}: {text}", class.name)),
                    _ => {
                        row.invalid += 1;
                        missing.push(format!("INVALID {}: {schema}: {text}", class.name));
                    }
                }
            }
        }
    }
    println!("{:24} {:>5} {:>9}", "class", "runs", "payloads");
    for (name, row) in &table {
        println!(
            "{name:24} {:>5} {:>9}{}",
            row.runs,
            row.payloads,
            if row.relaxed { "  relaxed" } else { "" }
        );
    }
    let sum = |relaxed: bool| {
        let rows = table.values().filter(|row| row.relaxed == relaxed);
        rows.fold((0, 0, 0), |sum, row| (sum.0 + row.runs, sum.1 + row.payloads, sum.2 + row.invalid))
    };
    let ((exact, exact_payloads, invalid), (relaxed, relaxed_payloads, _)) = (sum(false), sum(true));
    println!("exact {exact_payloads}/{exact}, relaxed {relaxed_payloads}/{relaxed} in the first turn");
    let missing = missing.join("\n");
    assert_eq!(invalid, 0, "{missing}");
    assert_eq!(exact_payloads, exact, "{missing}");
    assert!(relaxed_payloads * 10 >= relaxed * 9, "{relaxed_payloads}/{relaxed}\n{missing}");
}
