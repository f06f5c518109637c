//! Which price holds for which model.

use tenon_config::{Place, model_facts};

use crate::place::settings;

const PRICES: &str = r#"{
  "prices": {
    "gpt-5": { "input": 1, "output": 10 },
    "proxy/gpt-5": { "input": 2, "output": 20 },
    "house-*": { "input": 3, "output": 30 },
    "house-big-*": { "input": 4, "output": 40 },
    "lan/*": { "input": 0, "output": 0 }
  }
}"#;

#[test]
fn settings_go_before_the_list_and_the_closer_name_before_the_wider() {
    use Place::{Cassette, Here, Remote};
    let settings = settings(PRICES);
    for (provider, id, place, input) in [
        ("openai", "gpt-5", Remote, Some(1.0)),
        ("openai", "gpt-5-2025-08-07", Remote, Some(1.0)),
        ("proxy", "gpt-5", Remote, Some(2.0)),
        ("openai", "gpt-5-mini", Remote, Some(0.25)),
        ("openai", "house-small", Remote, Some(3.0)),
        ("openai", "house-big-1", Remote, Some(4.0)),
        ("lan", "anything", Remote, Some(0.0)),
        ("openai", "anything", Remote, None),
        // Nothing is charged on this machine and for a cassette, unless settings say so.
        ("ollama", "gpt-5-mini", Here, Some(0.0)),
        ("ollama", "gpt-5", Here, Some(1.0)),
        ("replay", "gpt-5-mini", Cassette, Some(0.0)),
        ("replay", "gpt-5", Cassette, Some(1.0)),
    ] {
        let price = model_facts(&settings, provider, id, place).price;
        assert_eq!(price.map(|price| price.rates.input), input, "{provider}/{id} {place:?}");
    }
}

#[test]
fn sizes_come_from_the_list_for_servers_that_keep_to_it_and_from_settings_for_all() {
    let size = |text: &str, id: &str, place| model_facts(&settings(text), "p", id, place).max_input;
    assert_eq!(size("{}", "gpt-4o", Place::Remote), Some(128_000));
    assert_eq!(size("{}", "gpt-4o", Place::Cassette), Some(128_000));
    assert_eq!(size("{}", "gpt-4o", Place::Here), None);
    assert_eq!(size("{}", "unheard-of", Place::Remote), None);
    let window = r#"{ "context": { "window": 4096 } }"#;
    for (id, place) in [("gpt-4o", Place::Remote), ("gpt-4o", Place::Here), ("unheard-of", Place::Remote)] {
        assert_eq!(size(window, id, place), Some(4096), "{id} {place:?}");
    }
}
