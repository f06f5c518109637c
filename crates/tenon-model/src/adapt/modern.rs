//! Writes forms of older drafts as 2020-12 has them. Providers read every schema as 2020-12, whatever it
//! declares, and refuse the request over these forms. The meaning stays.

use serde_json::{Map, Value, json};

use super::subschemas::{for_each, has_key, types};

/// True if anything had to be written differently.
pub(super) fn modernise(schema: &mut Value) -> bool {
    let mut changed = false;
    visit(schema, &mut |keywords| {
        let tuple = tuple(keywords);
        changed |= tuple | exclusive(keywords, "minimum", "exclusiveMinimum");
        changed |= exclusive(keywords, "maximum", "exclusiveMaximum");
    });
    if changed && let Value::Object(root) = schema {
        // It would be read by the rules of a draft that it no longer follows.
        root.shift_remove("$schema");
    }
    changed
}

/// OpenAI refuses arrays that do not say what is in them. True if one had to say it.
pub(super) fn name_items(schema: &mut Value) -> bool {
    if has_key(schema, &|key, _| key == "unevaluatedItems") {
        // There, saying `items` would say more.
        return false;
    }
    let mut changed = false;
    visit(schema, &mut |keywords| {
        let is_array = types(keywords).is_some_and(|names| names.contains(&"array"));
        if is_array && !keywords.contains_key("items") {
            keywords.insert("items".to_owned(), json!({}));
            changed = true;
        }
    });
    changed
}

fn visit(schema: &mut Value, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    if let Value::Object(keywords) = schema {
        change(keywords);
        for_each(keywords, &mut |inner| visit(inner, change));
    }
}

/// `items` as a list, and what follows the list.
fn tuple(keywords: &mut Map<String, Value>) -> bool {
    if !keywords.get("items").is_some_and(Value::is_array) {
        return false;
    }
    let rest = keywords.shift_remove("additionalItems");
    let Some(list) = keywords.shift_remove("items") else { return false };
    // An empty list says nothing, and 2020-12 wants at least one.
    if list.as_array().is_some_and(|list| !list.is_empty()) {
        keywords.insert("prefixItems".to_owned(), list);
    }
    if let Some(rest) = rest {
        keywords.insert("items".to_owned(), rest);
    }
    true
}

/// draft-04 has `exclusiveMinimum: true` beside `minimum`.
fn exclusive(keywords: &mut Map<String, Value>, limit: &str, flag: &str) -> bool {
    let Some(Value::Bool(is_exclusive)) = keywords.get(flag) else { return false };
    let is_exclusive = *is_exclusive;
    keywords.shift_remove(flag);
    if is_exclusive && let Some(value) = keywords.shift_remove(limit) {
        keywords.insert(flag.to_owned(), value);
    }
    true
}
