//! What a server says a model can write at most, found in its refusal of more.

/// No model has a smaller limit; smaller numbers in the text mean something else.
const SMALLEST_LIMIT: u64 = 1024;

/// The limit that a refusal of `asked` output tokens names, as in
/// `max_tokens: 32000 > 8192, which is the maximum …`.
pub(super) fn told_limit(refusal: &str, asked: u64) -> Option<u64> {
    let about = &refusal[refusal.find("max_tokens")?..];
    numbers(about).filter(|number| (SMALLEST_LIMIT..asked).contains(number)).max()
}

/// The numbers that stand alone: not those in names of models and ids of requests.
fn numbers(text: &str) -> impl Iterator<Item = u64> {
    let words = text.split(|char: char| !(char.is_alphanumeric() || matches!(char, ',' | '_' | '-' | '.')));
    words.filter_map(|word| {
        let word = word.trim_end_matches([',', '.']);
        word.replace([',', '_'], "").parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_found_in_the_refusal() {
        for (refusal, limit) in [
            (
                "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-20240620",
                Some(8192),
            ),
            (r#"{"message":"max_tokens: 32000 > 4096, which"},"request_id":"req_011CX7000f"}"#, Some(4096)),
            ("`max_tokens` must be at most 16,384.", Some(16_384)),
            ("max_tokens must be no more than 8_192", Some(8192)),
            ("max_tokens: too large for m-20000", None),
            ("max_tokens: 32000 > 64000", None),
            ("max_tokens: must be 3 or more", None),
            ("prompt is too long: 20000 tokens > 10000 maximum", None),
            ("", None),
        ] {
            assert_eq!(told_limit(refusal, 32_000), limit, "{refusal}");
        }
    }
}
