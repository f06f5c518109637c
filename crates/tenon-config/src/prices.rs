//! What a model costs and how much it can read: list prices and sizes, overridden by settings.
//!
//! The table is `data/models.json`: what vendors list for their own models, which is not what a reseller, a
//! contract or a discount makes of it. Settings `prices` and `context.window` are for those.
//!
//! A model is looked up by its id. An entry holds for the id itself and for its dated and numbered versions
//! (`gpt-5-mini-2025-08-07`, `gemini-2.0-flash-001`, `…-latest`, `…-preview-09-2025`), the longest such entry
//! first. Another model's price is never guessed: without an entry there is none.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;
use tenon_core::{Above, ModelFacts, Price, Rates};

use crate::settings::Settings;

/// When the list prices were looked up: a year and a month.
pub fn prices_as_of() -> &'static str {
    &TABLE.as_of
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    // A test reads the file, so that it cannot be shipped broken.
    serde_json::from_str(include_str!("../data/models.json")).unwrap_or_default()
});

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Table {
    as_of: String,
    models: BTreeMap<String, Entry>,
}

/// Dollars per million tokens, and sizes in tokens.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    #[serde(default)]
    above: Vec<Tier>,
    max_input: u64,
    max_output: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Tier {
    tokens: u64,
    input: f64,
    output: f64,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
}

/// Where a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Somebody else's server.
    Remote,
    /// This machine: nobody charges, and how much it reads is up to whoever started it.
    Here,
    /// A cassette: nobody charges, and it reads what the recorded model did.
    Cassette,
}

pub fn model_facts(settings: &Settings, provider: &str, id: &str, place: Place) -> ModelFacts {
    let listed = find(&TABLE.models, id);
    let price = from_settings(&settings.prices, provider, id).cloned().or_else(|| match place {
        Place::Here | Place::Cassette => Some(Price::FREE),
        Place::Remote => listed.map(Entry::price),
    });
    let listed = listed.filter(|_| place != Place::Here);
    ModelFacts {
        price,
        max_input: settings.context.window.or(listed.map(|entry| entry.max_input)),
        max_output: listed.map(|entry| entry.max_output),
    }
}

/// The provider's own, then the model's, then the longest beginning with a star.
fn from_settings<'a>(prices: &'a BTreeMap<String, Price>, provider: &str, id: &str) -> Option<&'a Price> {
    let full = format!("{provider}/{id}");
    let starred = || {
        let fits = |key: &str| {
            key.strip_suffix('*').is_some_and(|start| id.starts_with(start) || full.starts_with(start))
        };
        prices.iter().filter(|(key, _)| fits(key)).max_by_key(|(key, _)| key.len()).map(|(_, price)| price)
    };
    find(prices, &full).or_else(|| find(prices, id)).or_else(starred)
}

fn find<'a, T>(table: &'a BTreeMap<String, T>, id: &str) -> Option<&'a T> {
    let id = id.strip_prefix("models/").unwrap_or(id);
    table.get(id).or_else(|| {
        let versions =
            table.iter().filter(|(name, _)| id.strip_prefix(name.as_str()).is_some_and(is_version));
        versions.max_by_key(|(name, _)| name.len()).map(|(_, entry)| entry)
    })
}

/// `-2025-08-07`, `@20250929`, `-001`, `-latest`, `-preview-09-2025`; never `-mini` or `-4`.
fn is_version(rest: &str) -> bool {
    let (rest, preview) = match rest.strip_prefix("-preview") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    if preview && rest.is_empty() || rest == "-latest" {
        return true;
    }
    let Some(number) = rest.strip_prefix(['-', '@']) else { return false };
    let digits = number.chars().take_while(char::is_ascii_digit).count();
    let long_enough = digits >= 3 || preview && digits > 0;
    long_enough && number.chars().all(|char| char.is_ascii_digit() || char == '-')
}

impl Entry {
    fn price(&self) -> Price {
        let above = self.above.iter().map(|tier| Above {
            tokens: tier.tokens,
            rates: rates(tier.input, tier.output, tier.cache_read, tier.cache_write),
        });
        Price {
            rates: rates(self.input, self.output, self.cache_read, self.cache_write),
            above: above.collect(),
        }
    }
}

/// Where no other price is listed, what goes through a cache costs what input does.
fn rates(input: f64, output: f64, cache_read: Option<f64>, cache_write: Option<f64>) -> Rates {
    Rates {
        input,
        output,
        cache_read: cache_read.unwrap_or(input),
        cache_write: cache_write.unwrap_or(input),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_knows_every_default_model() {
        let table: Table = serde_json::from_str(include_str!("../data/models.json")).unwrap();
        assert!(table.as_of.len() >= "2025-01".len() && table.models.len() > 40);
        // What runs on this machine costs nothing.
        let paid = crate::providers::BUILT_IN.iter().filter(|provider| provider.name != "local");
        for model in paid.filter_map(|provider| provider.model.as_deref()) {
            assert!(table.models.contains_key(model), "{model}");
        }
        for (name, entry) in &table.models {
            let price = entry.price();
            let all = std::iter::once(price.rates).chain(price.above.iter().map(|above| above.rates));
            for rates in all {
                assert!(rates.input > 0.0 && rates.output >= rates.input, "{name}: {rates:?}");
                assert!(rates.cache_read > 0.0 && rates.cache_read <= rates.input, "{name}: {rates:?}");
                assert!(rates.cache_write >= rates.input, "{name}: {rates:?}");
            }
            assert!(
                price.above.iter().all(|above| above.tokens < entry.max_input || name.starts_with("claude")),
                "{name}"
            );
            assert!(entry.max_output > 0 && entry.max_input >= 8_000, "{name}");
        }
    }

    #[test]
    fn a_version_is_a_date_a_number_or_a_preview_and_never_another_model() {
        for (rest, expected) in [
            ("-2025-08-07", true),
            ("-20250929", true),
            ("@20250929", true),
            ("-001", true),
            ("-0613", true),
            ("-latest", true),
            ("-preview", true),
            ("-preview-09-2025", true),
            ("-preview-05-06", true),
            ("-mini", false),
            ("-pro", false),
            ("-4", false),
            ("-5-20250929", false),
            ("-20250929-thinking", false),
            (".5", false),
            ("-", false),
            ("", false),
            ("x", false),
            ("-preview-tts", false),
        ] {
            assert_eq!(is_version(rest), expected, "{rest}");
        }
    }

    #[test]
    fn the_longest_entry_that_fits_is_taken() {
        let input = |id: &str| {
            model_facts(&Settings::default(), "p", id, Place::Remote).price.map(|price| price.rates.input)
        };
        for (id, expected) in [
            ("gpt-5", Some(1.25)),
            ("gpt-5-2025-08-07", Some(1.25)),
            ("gpt-5-mini-2025-08-07", Some(0.25)),
            ("claude-sonnet-4-5-20250929", Some(3.0)),
            ("claude-opus-4-20250514", Some(15.0)),
            ("claude-opus-4-5-20251101", Some(5.0)),
            ("models/gemini-2.5-flash", Some(0.3)),
            ("gemini-2.5-flash-preview-09-2025", Some(0.3)),
            ("claude-opus-4-9", None),
            ("gpt-5-omni", None),
            ("somebody/gpt-5", None),
            ("", None),
        ] {
            assert_eq!(input(id), expected, "{id}");
        }
    }
}
