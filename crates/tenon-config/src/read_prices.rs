//! Reads `prices` of the settings. What they override is in `prices.rs`.

use std::collections::BTreeMap;

use jsonc_parser::ast::Value as Node;
use jsonc_parser::common::Ranged;
use tenon_core::{Above, Price, Rates};

use crate::problem::quotable;
use crate::reader::{Reader, Unknown};

pub(crate) fn read_prices(reader: &mut Reader<'_>, node: &Node<'_>) -> BTreeMap<String, Price> {
    let Some(object) = reader.object("prices", node) else { return BTreeMap::new() };
    let mut prices = BTreeMap::new();
    for property in &object.properties {
        let name = property.name.as_str();
        let path = format!("prices.{}", quotable(name));
        let stars = name.matches('*').count();
        if name.trim().is_empty() || stars > 1 || stars == 1 && !name.ends_with('*') {
            let hint = "a price is for a model, `gpt-5-mini`, a provider's model, `openai/gpt-5-mini`, or all names that begin alike, `gpt-5*`";
            reader.error(
                property.start(),
                format!("`{path}` is not the name of a model"),
                Some(hint.to_owned()),
            );
            continue;
        }
        prices.extend(price(reader, &path, &property.value).map(|price| (name.to_owned(), price)));
    }
    prices
}

fn price(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> Option<Price> {
    reader.object(path, node)?;
    // Misspelled, a rate would be the list's or nothing.
    let known = ["input", "output", "cacheRead", "cacheWrite", "above"];
    let entries = reader.entries(path, node, &known, Unknown::Refuse);
    let rates = rates(reader, path, node, &entries);
    let mut above = Vec::new();
    for (_, node) in entries.iter().filter(|(key, _)| *key == "above") {
        let path = format!("{path}.above");
        match node.as_array() {
            Some(list) => {
                for (index, node) in list.elements.iter().enumerate() {
                    above.extend(tier(reader, &format!("{path}[{index}]"), node));
                }
            }
            None => reader.wrong_type(&path, "a list", node),
        }
    }
    Some(Price { rates: rates?, above })
}

fn tier(reader: &mut Reader<'_>, path: &str, node: &Node<'_>) -> Option<Above> {
    reader.object(path, node)?;
    let known = ["tokens", "input", "output", "cacheRead", "cacheWrite"];
    let entries = reader.entries(path, node, &known, Unknown::Refuse);
    let rates = rates(reader, path, node, &entries);
    let tokens = match entries.iter().find(|(key, _)| *key == "tokens") {
        Some((_, node)) => reader.whole(&format!("{path}.tokens"), node, 1),
        None => missing(reader, path, "tokens", node),
    };
    Some(Above { tokens: tokens?, rates: rates? })
}

/// What is not said of a cache costs what input does.
fn rates(
    reader: &mut Reader<'_>,
    path: &str,
    node: &Node<'_>,
    entries: &[(&str, &Node<'_>)],
) -> Option<Rates> {
    let mut rate = |key: &str| {
        let (_, node) = entries.iter().find(|(known, _)| *known == key)?;
        let must_be = "dollars per million tokens, 0 or more";
        Some(reader.number(&format!("{path}.{key}"), node, must_be, |rate| rate >= 0.0))
    };
    let [input, output, cache_read, cache_write] =
        [rate("input"), rate("output"), rate("cacheRead"), rate("cacheWrite")];
    let input = input.unwrap_or_else(|| missing(reader, path, "input", node));
    let output = output.unwrap_or_else(|| missing(reader, path, "output", node));
    Some(Rates {
        input: input?,
        output: output?,
        cache_read: cache_read.flatten().or(input)?,
        cache_write: cache_write.flatten().or(input)?,
    })
}

fn missing<T>(reader: &mut Reader<'_>, path: &str, key: &str, node: &Node<'_>) -> Option<T> {
    let hint = "prices are dollars per million tokens: `{ \"input\": 0.25, \"output\": 2 }`";
    reader.error(node.start(), format!("`{path}.{key}` is missing"), Some(hint.to_owned()));
    None
}
