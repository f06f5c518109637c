//! Whatever happens to a file: it opens, it can be written, and what was whole is still there.

use proptest::prelude::*;
use tenon_core::{Message, Part, TurnRecord};
use tenon_testkit::cases;

use crate::support::{ASKED, Home, answer, call, drawn, finished, id, started, text, user, write};

/// Records of a run: turns with calls that began or not, ended or not, and a compaction here and there.
fn records() -> impl Strategy<Value = Vec<TurnRecord>> {
    let turn = (0..4_usize, 0..5_usize, any::<bool>(), "[a-zä\\n\"{}]{0,30}");
    prop::collection::vec(turn, 1..8).prop_map(|turns| {
        let mut records = vec![user("go")];
        for (number, (calls, done, compact, words)) in turns.into_iter().enumerate() {
            let ids: Vec<String> = (0..calls).map(|call| format!("c{number}_{call}")).collect();
            let mut parts = vec![text(&words)];
            parts.extend(ids.iter().map(|id| call(id)));
            records.push(answer(parts));
            for id in ids.iter().take(done) {
                records.push(started(id));
                records.push(finished(id, &words));
            }
            if compact && done >= calls {
                let messages = vec![Message::user(format!("summary {number}"))];
                records.push(TurnRecord::Compacted { messages, before_tokens: 2, after_tokens: 1 });
            }
            records.push(user(&format!("next {number}")));
        }
        records
    })
}

/// Every call has one answer, right behind it, and every answer a call.
fn assert_whole(history: &[Message]) {
    for (at, message) in history.iter().enumerate() {
        let calls: Vec<&str> = message.tool_calls().map(|call| call.id.as_str()).collect();
        let next = history.get(at + 1).map(|next| next.parts.as_slice()).unwrap_or_default();
        let results = |parts: &[Part]| -> Vec<String> {
            let id = |part: &Part| match part {
                Part::ToolResult(result) => Some(result.call_id.clone()),
                _ => None,
            };
            parts.iter().filter_map(id).collect()
        };
        if !calls.is_empty() {
            assert_eq!(results(next), calls, "{:?}", drawn(history));
        }
        if !results(&message.parts).is_empty() {
            assert!(at > 0 && history[at - 1].tool_calls().count() > 0, "{:?}", drawn(history));
        }
        assert!(!message.parts.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(48)))]

    #[test]
    fn a_cut_file_is_a_shorter_one(records in records(), at in any::<prop::sample::Index>()) {
        let home = Home::new();
        write(&home.create(1), records);
        let whole = std::fs::read(home.file(1)).unwrap();
        let cut = at.index(whole.len() + 1);
        std::fs::write(home.file(1), &whole[..cut]).unwrap();
        let (session, resumed) = home.open(1);
        assert_whole(&resumed.history);
        write(&session, [user("again")]);
        drop(session);
        let now = std::fs::read(home.file(1)).unwrap();
        let lines = whole[..cut].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        prop_assert!(now.starts_with(&whole[..lines]));
        let (_, again) = home.open(1);
        assert_whole(&again.history);
        prop_assert!(again.warnings.is_empty(), "{:?}", again.warnings);
        prop_assert!(again.history.last().unwrap().text().ends_with("again"));
    }

    #[test]
    fn garbage_anywhere_is_survived(
        records in records(),
        garbage in prop::collection::vec(any::<u8>(), 1..40),
        at in any::<prop::sample::Index>(),
        replaced in any::<bool>(),
    ) {
        let home = Home::new();
        write(&home.create(1), records);
        let mut bytes = std::fs::read(home.file(1)).unwrap();
        let at = at.index(bytes.len());
        let end = if replaced { (at + garbage.len()).min(bytes.len()) } else { at };
        bytes.splice(at..end, garbage);
        std::fs::write(home.file(1), &bytes).unwrap();
        if let Ok(seen) = tenon_session::read(&home.place(), id(1), ASKED) {
            assert_whole(&seen.history);
            let (session, resumed) = home.open(1);
            assert_whole(&resumed.history);
            write(&session, [user("again")]);
            drop(session);
            let (_, again) = home.open(1);
            assert_whole(&again.history);
            prop_assert!(again.history.last().unwrap().text().ends_with("again"));
        }
    }
}

#[test]
fn a_line_of_ten_megabytes_is_a_line() {
    let home = Home::new();
    let big = "ä".repeat(5 * 1024 * 1024);
    write(
        &home.create(1),
        [user("go"), answer(vec![call("a")]), started("a"), finished("a", &big), answer(vec![text("x")])],
    );
    let (_, resumed) = home.open(1);
    assert!(matches!(&resumed.history[2].parts[0], Part::ToolResult(result) if result.content == big));
    let whole = std::fs::read(home.file(1)).unwrap();
    std::fs::write(home.file(1), &whole[..whole.len() / 2]).unwrap();
    let (_, resumed) = home.open(1);
    assert_eq!(drawn(&resumed.history), ["user: go", "model: call a", "user: a=Interrupted"]);
}
