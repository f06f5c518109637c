//! What the tools of a server are called: `mcp__server__tool`. Providers take letters, digits, `_` and `-`,
//! and at most 64 of them; rules such as `mcp__server` must mean one server and no other.

use std::collections::HashSet;

/// What the strictest providers take.
pub(super) const MAX_NAME: usize = 64;
/// Leaves room for the tool's own name.
const MAX_SERVER: usize = 30;
/// Hexadecimal digits that tell shortened names apart, and the `_` before them.
const MARK: usize = 9;

/// The server's part of the names of its tools. Without `__`, which ends it, and without `_` at its ends.
pub fn mcp_server_word(server: &str) -> String {
    let mut word = String::new();
    for c in server.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '-' => word.push(c),
            _ if word.is_empty() || word.ends_with('_') => {}
            _ => word.push('_'),
        }
    }
    let word = word.trim_end_matches('_');
    shortened(word, server, MAX_SERVER)
}

/// The names of a server's tools, in their order. `None` for a name that stood there before.
pub(super) fn tool_names<'a>(server: &str, tools: impl Iterator<Item = &'a str>) -> Vec<Option<String>> {
    let prefix = format!("mcp__{}__", mcp_server_word(server));
    let mut seen = HashSet::new();
    let mut taken = HashSet::new();
    tools
        .map(|tool| {
            if tool.is_empty() || !seen.insert(tool) {
                return None;
            }
            let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' };
            let own: String = tool.chars().map(plain).collect();
            let room = MAX_NAME - prefix.len();
            let name = format!("{prefix}{}", shortened(&own, tool, room));
            let name = match taken.contains(&name) {
                true => format!("{prefix}{}", marked(&own, tool, room)),
                false => name,
            };
            taken.insert(name.clone()).then_some(name)
        })
        .collect()
}

/// `name`, or its beginning and a mark that follows from `whole`.
fn shortened(name: &str, whole: &str, most: usize) -> String {
    if name.len() <= most { name.to_owned() } else { marked(name, whole, most) }
}

/// Names are ASCII here, so every byte is a character.
fn marked(name: &str, whole: &str, most: usize) -> String {
    // FNV-1a: the same name in every run and version.
    let hash =
        whole.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let kept = name.len().min(most - MARK);
    format!("{}_{hash:08x}", name[..kept].trim_end_matches('_'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_made_of_what_providers_take() {
        for (server, tool, expected) in [
            ("files", "read", "mcp__files__read"),
            ("my files", "read/write", "mcp__my_files__read_write"),
            ("a__b", "c", "mcp__a_b__c"),
            ("_a_", "__c__", "mcp__a____c__"),
            ("größe", "ä", "mcp__gr_e___"),
            ("s", "structured_output", "mcp__s__structured_output"),
        ] {
            assert_eq!(tool_names(server, [tool].into_iter()), [Some(expected.to_owned())]);
        }
    }

    #[test]
    fn names_that_become_alike_stay_apart_and_repeated_ones_are_dropped() {
        let names = tool_names("s", ["a.b", "a/b", "a.b", ""].into_iter());
        assert_eq!(names[0].as_deref(), Some("mcp__s__a_b"));
        assert!(names[1].as_deref().is_some_and(|name| name.starts_with("mcp__s__a_b_")), "{names:?}");
        assert_eq!(&names[2..], [None, None]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(tenon_testkit::cases(256)))]
        #[test]
        fn any_names_give_names_that_fit_and_belong_to_their_server(
            server in "[a-z0-9_ ./-]{0,80}[a-z0-9][a-z0-9_ ./-]{0,80}",
            tools in prop::collection::vec(".{0,120}", 0..20),
        ) {
            let names = tool_names(&server, tools.iter().map(String::as_str));
            let given: Vec<&String> = names.iter().flatten().collect();
            let distinct: HashSet<&&String> = given.iter().collect();
            prop_assert_eq!(distinct.len(), given.len());
            let word = mcp_server_word(&server);
            prop_assert!(!word.is_empty() && !word.contains("__"));
            for name in given {
                prop_assert!(name.len() <= MAX_NAME, "{}", name);
                let rest = name.strip_prefix("mcp__").and_then(|rest| rest.strip_prefix(word.as_str()));
                prop_assert!(rest.is_some_and(|rest| rest.starts_with("__")), "{}", name);
                prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')), "{}", name);
            }
        }
    }
}
