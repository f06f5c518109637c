//! Keys are written in one way and read back as they were.

use proptest::prelude::*;
use tenon_flow::{Role, Segment, StepKey};
use tenon_testkit::cases;

#[test]
fn keys_are_written_as_documented() {
    let run = StepKey::run("run");
    let inner = run
        .child(Segment::new("include"))
        .child(Segment::new("loop").iteration(2).index(7))
        .child(Segment::new("inner"));
    let again = run.child(Segment::new("include").attempt(2)).child(Segment::new("check-it").attempt(3));
    let table = [
        (run.clone(), "run@1", ""),
        (inner.clone(), "run/include/loop#2[7]/inner@1", "include.loop.2[7].inner"),
        (again, "run/include@2/check-it@3", "include.check-it"),
        (run.child(Segment::new("each").index(3)), "run/each[3]@1", "each[3]"),
        (run.child(Segment::new("l").iteration(0)).with_role(Role::Judge), "run/l#0@1~judge", "l.0.judge"),
        (run.with_role(Role::Timeout), "run@1~timeout", ""),
    ];
    for (key, text, step_id) in table {
        assert_eq!(key.to_string(), text);
        assert_eq!(text.parse::<StepKey>().as_ref(), Ok(&key));
        assert_eq!(key.step_id(), step_id);
        let json = serde_json::to_string(&key).unwrap();
        assert_eq!(serde_json::from_str::<StepKey>(&json).unwrap(), key);
    }
}

#[test]
fn what_is_no_key_is_refused() {
    for text in [
        "",
        "run",
        "/run@1",
        "run/@1",
        "run/a",
        "run/a@0",
        "run/a@01",
        "run/a@1@2",
        "run@1/a@1",
        "run/a[1@1",
        "run/a[]@1",
        "run/a#@1",
        "run/a#-1@1",
        "run/a#+1@1",
        "run/a[1]#2@1",
        "run/a b@1",
        "run/ä@1",
        "run/a@1~nothing",
        "run/a@1~",
        "run/a@4294967296",
        "run/a@1~judge~judge",
    ] {
        let error = text.parse::<StepKey>().expect_err(text);
        assert!(error.to_string().contains("is not the key of a step"), "{error}");
    }
}

prop_compose! {
    fn segments()(
        id in "[a-zA-Z][a-zA-Z0-9_-]{0,9}",
        iteration in prop::option::of(0..=u32::MAX),
        index in prop::option::of(0..=u32::MAX),
        attempt in 1..=u32::MAX,
    ) -> Segment {
        let segment = Segment::new(id).attempt(attempt);
        let segment = iteration.map_or(segment.clone(), |iteration| segment.iteration(iteration));
        index.map_or(segment.clone(), |index| segment.index(index))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(256)))]

    #[test]
    fn a_key_is_read_back_as_it_was(
        run in "[A-Za-z0-9_-]{1,64}",
        path in prop::collection::vec(segments(), 0..5),
        role in prop::sample::select(Role::ALL.to_vec()),
    ) {
        let key = path.into_iter().fold(StepKey::run(run), |key, segment| key.child(segment)).with_role(role);
        prop_assert_eq!(key.to_string().parse::<StepKey>(), Ok(key));
    }

    #[test]
    fn whatever_is_read_is_printed_as_it_was(text in "[a-b/#@~\\[\\]0-2judge]{0,16}") {
        if let Ok(key) = text.parse::<StepKey>() {
            prop_assert_eq!(key.to_string(), text);
        }
    }
}
