//! What a document becomes when it is loaded with its files.

use std::fs;
use std::path::Path;

use tenon_flow::{LoadError, LoadOptions, LoadedWorkflow, LoopKind, StepBody, load};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Folder {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Folder(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn load(&self) -> Result<LoadedWorkflow, LoadError> {
        load(&self.path().join("flow.yaml"), &LoadOptions::default())
    }

    fn loaded(&self) -> LoadedWorkflow {
        self.load().unwrap_or_else(|error| panic!("{error:?}"))
    }

    fn codes(&self) -> Vec<&'static str> {
        match self.load() {
            Ok(_) => Vec::new(),
            Err(LoadError::Invalid(found)) => {
                found.iter().filter(|problem| problem.is_error()).map(|problem| problem.code.text()).collect()
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn files_take_the_place_of_references() {
    let folder = Folder::new(&[
        (
            "flow.yaml",
            "name: n\nagents: {a: {description: d, prompt: '@p/one.md'}}\nsteps:\n  - {id: s, instructions: '@long.md'}\n  - {id: l, loop: {maxIterations: 1, steps: [{id: i, instructions: '@long.md'}]}}",
        ),
        ("p/one.md", "  @p/two.md \n"),
        ("p/two.md", "You are two.\n"),
        ("long.md", &"x".repeat(5000)),
    ]);
    let loaded = folder.loaded();
    assert_eq!(loaded.agents["a"].spec.prompt, "You are two.\n");
    assert_eq!(loaded.workflow.steps[0].instructions.len(), 5000);
    let StepBody::Loop(it) = &loaded.steps[1].body else { panic!() };
    assert_eq!(it.steps[0].spec.instructions.len(), 5000);
    assert_eq!(loaded.hash.len(), 64);
}

#[test]
fn references_stay_in_their_folder() {
    let secret = tempfile::tempdir().unwrap();
    fs::write(secret.path().join("secret"), "no").unwrap();
    let table = [
        ("'@../secret'", "ref_escape"),
        ("'@/etc/hostname'", "ref_escape"),
        ("'@link'", "ref_escape"),
        ("'@missing'", "ref_missing"),
        ("'@'", "ref_missing"),
        ("'@loop-a'", "ref_missing"),
        ("'@sub'", "ref_missing"),
        ("'@chain0'", "ref_missing"),
        ("'@huge'", "too_large"),
        ("'@bidi'", "unicode_unsafe"),
        ("'@binary'", "validation"),
    ];
    let chain: Vec<(String, String)> =
        (0..25).map(|index| (format!("chain{index}"), format!("@chain{}", index + 1))).collect();
    for (reference, code) in table {
        let text = format!("name: n\nsteps: [{{id: s, instructions: {reference}}}]");
        let folder = Folder::new(&[
            ("flow.yaml", &text),
            ("loop-a", "@loop-b"),
            ("loop-b", "@loop-a"),
            ("sub/x", ""),
            ("bidi", "a\u{202e}b"),
            ("huge", &"x".repeat(1024 * 1024 + 1)),
        ]);
        for (name, text) in &chain {
            fs::write(folder.path().join(name), text).unwrap();
        }
        fs::write(folder.path().join("binary"), [0xff, 0xfe, 0x00]).unwrap();
        std::os::unix::fs::symlink(secret.path().join("secret"), folder.path().join("link")).unwrap();
        assert_eq!(folder.codes(), [code], "{reference}");
    }
    // A link that stays inside is a file like any other.
    let folder =
        Folder::new(&[("flow.yaml", "name: n\nsteps: [{id: s, instructions: '@in'}]"), ("real", "text")]);
    std::os::unix::fs::symlink("real", folder.path().join("in")).unwrap();
    assert_eq!(folder.loaded().workflow.steps[0].instructions, "text");
}

#[test]
fn includes_are_loaded_once_and_not_too_deep() {
    let folder = Folder::new(&[
        (
            "flow.yaml",
            "name: n\nincludes: {d: sub/deploy.yaml}\nsteps: [{id: a, include: d}, {id: b, include: sub/deploy.yaml}, {id: l, loop: {forEach: [1], steps: [{id: i, include: d}]}}]",
        ),
        ("sub/deploy.yaml", "name: deploy\nsteps: [{id: x, instructions: '@x.md'}]"),
        ("sub/x.md", "deploy it"),
    ]);
    let loaded = folder.loaded();
    let StepBody::Include(inner) = &loaded.steps[0].body else { panic!() };
    assert_eq!(inner.workflow.steps[0].instructions, "deploy it");
    assert_eq!(inner.folder, folder.path().canonicalize().unwrap().join("sub"));
    let StepBody::Include(again) = &loaded.steps[1].body else { panic!() };
    assert!(std::sync::Arc::ptr_eq(inner, again));

    let chain = |depth: usize| {
        let mut files = Vec::new();
        for level in 0..=depth {
            let name = if level == 0 { "flow.yaml".to_owned() } else { format!("f{level}.yaml") };
            let body = if level == depth { String::new() } else { format!(", include: f{}.yaml", level + 1) };
            files.push((name, format!("name: n\nsteps: [{{id: s{level}{body}}}]")));
        }
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        Folder::new(&files).codes()
    };
    assert_eq!(chain(5), Vec::<&str>::new());
    assert!(chain(6).contains(&"include_depth"), "{:?}", chain(6));
    let folder = Folder::new(&[
        ("flow.yaml", "name: n\nsteps: [{id: a, include: b.yaml}]"),
        ("b.yaml", "name: b\nsteps: [{id: a, include: flow.yaml}]"),
    ]);
    assert!(folder.codes().contains(&"include_depth"));
    let folder = Folder::new(&[
        ("flow.yaml", "name: n\nagents: {w: {description: d}}\nsteps: [{id: a, include: b.yaml}]"),
        ("b.yaml", "name: b\nagents: {w: {description: other}}\nsteps: [{id: a, agent: w}]"),
    ]);
    assert_eq!(folder.codes(), ["include_collision"]);
    // A hundred steps that each include a file that includes a hundred files.
    let steps =
        |file: &str| (0..100).map(|at| format!("  - {{id: s{at}, include: {file}}}\n")).collect::<String>();
    let folder = Folder::new(&[
        ("flow.yaml", &format!("name: n\nsteps:\n{}", steps("b.yaml"))),
        ("b.yaml", &format!("name: b\nsteps:\n{}", steps("c.yaml"))),
        ("c.yaml", &format!("name: c\nsteps:\n{}", steps("d.yaml"))),
        ("d.yaml", "name: d\nsteps: [{id: x}]"),
    ]);
    assert_eq!(folder.loaded().steps.len(), 100);
}

#[test]
fn expressions_are_checked_against_schemas() {
    let flow = |step: &str| {
        let text = format!(
            "name: n\nagents:\n  t:\n    description: d\n    resultSchema:\n      type: object\n      additionalProperties: false\n      properties:\n        ok: {{type: boolean}}\n        word: {{type: string}}\n        list: {{type: array, items: {{$ref: '#/$defs/item'}}}}\n        any: {{}}\n      $defs: {{item: {{type: object, additionalProperties: false, properties: {{name: {{type: string}}}}}}}}\n  plain: {{description: d}}\nsteps:\n  - {{id: test-it, agent: t}}\n  - {{id: free, agent: plain}}\n  - id: s\n    dependsOn: [test-it, free]\n    {step}\n"
        );
        Folder::new(&[("flow.yaml", &text)])
    };
    let valid = [
        "condition: steps.test-it.result.ok",
        "condition: has(steps.test-it.result.word) && steps.test-it.result.word.contains('x')",
        "condition: steps.test-it.result.list.exists(i, i.name == 'x')",
        "condition: steps.test-it.result.any.thing.at.all == 1",
        "loop: {forEach: steps.test-it.result.list}",
        "loop: {forEach: 'steps.test-it.result.list.filter(i, i.name != string(1)).map(i, i.name)'}",
        "loop: {forEach: '[1, 2]'}",
        "instructions: 'Say ${{ steps[\"test-it\"].result.list[0].name }}'",
        "loop: {forEach: result.list}",
        "instructions: 'Say ${{ item }} ${{ index }}'\n    loop: {forEach: [1]}",
        "instructions: 'Say ${{ iteration }}'\n    loop: {maxIterations: 2}",
        "loop: {forEach: [1], steps: [{id: inner, condition: index > 0, instructions: '${{ item }}'}]}",
        "agent: t\n    loop: {maxIterations: 2, until: result.ok && content != status}",
        "loop: {maxIterations: 2, until: result.whatever, steps: [{id: inner}]}",
        "loop: {maxIterations: 2, until: 'steps.inner.status == \"completed\" && iteration > 0', steps: [{id: inner}]}",
    ];
    for step in valid {
        let folder = flow(step);
        assert_eq!(folder.codes(), Vec::<&str>::new(), "{step}");
        assert_eq!(folder.loaded().warnings, [], "{step}");
    }
    let invalid = [
        ("condition: steps.test-it.result.okay", "cel_unknown_field"),
        ("condition: has(steps.test-it.result.okay)", "cel_unknown_field"),
        ("condition: steps.test-it.results.ok", "cel_unknown_field"),
        ("condition: steps.tset-it.status == 'completed'", "cel_unknown_step"),
        ("condition: steps.test.status == 'completed'", "cel_unknown_step"),
        ("condition: steps['test'].status == 'completed'", "cel_unknown_step"),
        ("condition: steps.test-it.result.list.exists(i, i.nome == 'x')", "cel_unknown_field"),
        ("condition: steps.test-it.result.list[0].nome == 'x'", "cel_unknown_field"),
        ("condition: steps.test-it.result.word", "cel_type"),
        ("condition: steps.test-it.result.list.contains('x')", "cel_type"),
        ("condition: 'steps.test-it.result.ok && steps.test-it.content'", "cel_type"),
        ("condition: steps.free.status + 'x'", "cel_type"),
        ("condition: frobnicate(1)", "cel_type"),
        ("condition: undefined_var > 0", "cel_type"),
        ("condition: content.matches('[')", "cel_type"),
        ("condition: '!!!'", "cel_syntax"),
        ("loop: {forEach: steps.test-it.content}", "cel_type"),
        ("loop: {forEach: 'size(steps.test-it.content)'}", "cel_type"),
        ("loop: {maxIterations: 2, until: steps.other.status == 1}", "cel_unknown_step"),
        ("instructions: '${{ inputs.x }} ${{ github.sha }}'", "cel_type"),
        ("instructions: '${{ open'", "cel_syntax"),
        ("agent: t\n    loop: {maxIterations: 2, until: result.okay}", "cel_unknown_field"),
        ("agent: t\n    loop: {maxIterations: 2, until: result.word}", "cel_type"),
    ];
    for (step, code) in invalid {
        let found = flow(step).codes();
        assert!(!found.is_empty() && found.iter().all(|it| *it == code), "{step}: {found:?}");
    }
    let warned = ["condition: steps.free.result.x == 1", "condition: steps.s.status == 'completed'"];
    for step in warned {
        assert_eq!(flow(step).loaded().warnings.len(), 1, "{step}");
    }
}

#[test]
fn comparisons_that_never_hold_are_told() {
    let warnings = |condition: &str| {
        let text = format!(
            "name: n\nagents:\n  t:\n    description: d\n    resultSchema:\n      type: object\n      properties:\n        ok: {{type: boolean}}\n        n: {{type: integer}}\n        sev: {{enum: [low, high, 3]}}\n        either: {{type: [string, boolean]}}\n        list: {{type: array, items: {{$ref: '#/$defs/item'}}}}\n      $defs: {{item: {{type: string}}}}\nsteps:\n  - {{id: a, agent: t}}\n  - id: s\n    dependsOn: [a]\n    condition: \"{condition}\"\n"
        );
        Folder::new(&[("flow.yaml", &text)]).loaded().warnings
    };
    let told = [
        (
            "steps.a.status == 'success'",
            "this is never `success`, only `completed`, `failed`, `skipped`, `cancelled`",
        ),
        (
            "'done' == steps['a'].status",
            "this is never `done`, only `completed`, `failed`, `skipped`, `cancelled`",
        ),
        ("steps.a.result.sev == 'hihg'", "this is never `hihg`, only `low`, `high`, `3`"),
        ("steps.a.result.ok == 'true'", "this is true or false, and never `true`"),
        ("steps.a.result.n == '1'", "this is a number, and never `1`"),
        ("steps.a.result.list.exists(i, i == 1)", "this is text, and never `1`"),
        ("steps.a.result.list == 'x'", "this is a list, and never `x`"),
        // It is there, or missing altogether.
        ("steps.a.result.sev == null", "this is never null, it is a number or text"),
    ];
    for (condition, wanted) in told {
        let found = warnings(condition);
        let found: Vec<(&str, &str)> = found.iter().map(|it| (it.code.text(), it.message.as_str())).collect();
        assert_eq!(found, [("cel_type", wanted)], "{condition}");
    }
    assert_eq!(warnings("steps.a.status == 'complete'")[0].hint, "did you mean `completed`?");
    for condition in [
        "steps.a.status != 'cancelled'",
        "steps.a.result == null",
        "steps.a.result.sev == 3.0 || steps.a.result.sev == 'low'",
        "steps.a.result.n == 1.0 || steps.a.result.n == 1u",
        "steps.a.result.either == 'x' || steps.a.result.either == true",
        "(steps.a.result.ok ? steps.a.status : 'none') == 'none'",
        "steps.a.status + '!' == 'completed!'",
    ] {
        assert_eq!(warnings(condition), [], "{condition}");
    }
}

#[test]
fn names_that_mean_nothing_where_they_stand_are_told() {
    let table = [
        ("condition: item == 1", "`item` is always null here: this is not inside a `forEach`"),
        ("condition: index > 0", "`index` is always 0 here: this is not inside a `forEach`"),
        (
            "instructions: '${{ iteration }}'",
            "`iteration` is always 0 here: this is not inside a repeating loop",
        ),
        (
            "loop: {maxIterations: 2, until: index > 0}",
            "`index` is always 0 here: this is not inside a `forEach`",
        ),
        (
            "loop: {forEach: [1], steps: [{id: i, instructions: '${{ iteration }}'}]}",
            "`iteration` is always 0 here: this is not inside a repeating loop",
        ),
        (
            "condition: item == 1\n    loop: {forEach: [1]}",
            "`item` is always null here: this is not inside a `forEach`",
        ),
        ("instructions: '${{ content }}'", "`content` is always empty here: no step is meant"),
        ("condition: result.x == 1", "`result` is always empty here: no step is meant"),
        ("loop: {forEach: '[status]'}", "`status` is always empty here: no step is meant"),
        (
            "loop: {maxIterations: 2, until: result.x}",
            "step `s` gives no structured result, so this is never there",
        ),
        ("condition: inputs.x == 1", "the document declares no `inputs`, so there is no `x`"),
        ("condition: inputs['x'] == 1", "the document declares no `inputs`, so there is no `x`"),
    ];
    for (step, wanted) in table {
        let flow = format!("name: n\nsteps:\n  - id: s\n    {step}\n");
        let warnings = Folder::new(&[("flow.yaml", &flow)]).loaded().warnings;
        let told: Vec<(&str, &str)> =
            warnings.iter().map(|it| (it.code.text(), it.message.as_str())).collect();
        assert_eq!(told, [("cel_unknown_field", wanted)], "{step}");
        // Around an included document there may be a loop, and inputs.
        let names = ["item", "index", "iteration", "inputs"];
        let from_outside = names.iter().any(|name| wanted.contains(&format!("`{name}`")));
        let outer = "name: o\nsteps: [{id: l, loop: {forEach: [1], steps: [{id: i, include: flow.yaml}]}}]";
        let folder = Folder::new(&[("flow.yaml", &flow), ("outer.yaml", outer)]);
        let outer = load(&folder.path().join("outer.yaml"), &LoadOptions::default()).unwrap();
        assert_eq!(outer.warnings.is_empty(), from_outside, "{step}: {:?}", outer.warnings);
    }
}

#[test]
fn tools_schemas_inputs_and_outputs_are_checked() {
    let flow = |text: &str| Folder::new(&[("flow.yaml", &format!("name: n\n{text}"))]).codes();
    let agent =
        |rest: &str| format!("agents: {{a: {{description: d, {rest}}}}}\nsteps: [{{id: s, agent: a}}]");
    for rest in [
        "tools: [bash, read, write, grep, glob]",
        "tools: [read_file, run_shell_command, mcp__server__tool]",
        "disallowedTools: [send_message, shared_memory_write, submit_result]",
        "tools: []",
    ] {
        assert_eq!(flow(&agent(rest)), Vec::<&str>::new(), "{rest}");
    }
    assert_eq!(flow(&agent("tools: [raed]")), ["unknown_tool"]);
    assert_eq!(flow(&agent("tools: ['*']")), ["unknown_tool"]);
    assert_eq!(flow(&agent("disallowedTools: [nope]")), ["unknown_tool"]);
    assert_eq!(flow(&agent("resultSchema: {type: object, requierd: [a]}")), ["schema_invalid"]);
    assert_eq!(flow(&agent("resultSchema: {type: string}")), ["schema_invalid"]);
    assert_eq!(flow("inputs: {type: objekt}\nsteps: [{id: s}]"), ["schema_invalid"]);
    assert_eq!(flow("steps: [{id: s}]\noutputs: {x: steps.t.content}"), ["cel_unknown_step"]);
    let mut options = LoadOptions::default();
    options.tools.insert("mine".to_owned());
    options.doubt_model(|name| (name == "odd").then(|| "nobody knows it".to_owned()));
    let folder = Folder::new(&[("flow.yaml", &format!("name: n\n{}", agent("tools: [mine], model: odd")))]);
    let loaded = load(&folder.path().join("flow.yaml"), &options).unwrap();
    assert_eq!(loaded.warnings[0].message, "the model `odd` may not answer: nobody knows it");
}

#[test]
fn a_loop_knows_its_kind() {
    let folder = Folder::new(&[(
        "flow.yaml",
        "name: n\nagents: {j: {description: d, resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}}}\nsteps:\n  - {id: a, loop: {maxIterations: 4, untilAgent: j, delay: 3s}}\n  - {id: b, loop: {forEach: [1], maxConcurrency: 2}}",
    )]);
    let loaded = folder.loaded();
    let StepBody::Loop(a) = &loaded.steps[0].body else { panic!() };
    let LoopKind::RepeatUntil { max_iterations: 4, judge: Some(judge), until: None, delay: Some(delay) } =
        &a.kind
    else {
        panic!()
    };
    assert_eq!((judge.name.as_str(), delay.as_secs()), ("j", 3));
    let StepBody::Loop(b) = &loaded.steps[1].body else { panic!() };
    assert!(matches!(b.kind, LoopKind::ForEach { max_concurrency: Some(2), .. }));
}

#[test]
fn the_hash_follows_the_meaning() {
    let hash = |text: &str| {
        Folder::new(&[("flow.yaml", text), ("x.md", "x"), ("i.yaml", "name: i\nsteps: [{id: a}]")])
            .loaded()
            .hash
    };
    let plain = hash("name: n\nsteps: [{id: a}]");
    assert_eq!(plain, hash("# comment\nsteps:\n  - id: a\n    retries: 0\nname: 'n'\n"));
    assert_ne!(plain, hash("name: n\nsteps: [{id: a, retries: 1}]"));
    assert_ne!(hash("name: n\nsteps: [{id: a, include: i.yaml}]"), plain);
}

#[test]
fn a_file_that_cannot_be_read_is_not_a_document() {
    let folder = Folder::new(&[("sub/x", "")]);
    for name in ["missing.yaml", "sub"] {
        let error = load(&folder.path().join(name), &LoadOptions::default()).unwrap_err();
        assert!(matches!(error, LoadError::Unreadable { .. }), "{name}: {error}");
    }
}

#[test]
fn context_files_that_a_step_would_not_see_as_they_are_are_warnings() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret.txt"), "s").unwrap();
    let far = outside.path().join("secret.txt").display().to_string();
    let folder = Folder::new(&[
        (
            "flow.yaml",
            &format!(
                "name: n\nsteps:\n  - id: a\n    contextFiles: [ok.md, ../x.md, {far}, link.md, big.txt, latin.txt, sub, no.png]\n  \
                 - {{id: l, loop: {{forEach: [1], steps: [{{id: i, contextFiles: [gone.md]}}]}}}}\n"
            ),
        ),
        ("ok.md", "fine"),
        ("sub/x", "x"),
        ("no.png", "no picture"),
    ]);
    std::os::unix::fs::symlink(&far, folder.path().join("link.md")).unwrap();
    fs::write(folder.path().join("latin.txt"), b"caf\xe9 au lait").unwrap();
    // Of nothing, but too much of it.
    fs::File::create(folder.path().join("big.txt")).unwrap().set_len(10 * 1024 * 1024 + 1).unwrap();
    let told: Vec<(&str, u32, String)> = folder
        .loaded()
        .warnings
        .iter()
        .map(|one| (one.code.text(), one.line, one.message.replace(&far, "FAR")))
        .collect();
    let told: Vec<(&str, u32, &str)> =
        told.iter().map(|(code, line, text)| (*code, *line, text.as_str())).collect();
    let codes: Vec<(&str, u32)> = told.iter().map(|(code, line, _)| (*code, *line)).collect();
    assert_eq!(
        codes,
        [
            ("ref_escape", 4),
            ("ref_escape", 4),
            ("ref_escape", 4),
            ("too_large", 4),
            ("validation", 4),
            ("ref_missing", 4),
            ("ref_missing", 4),
            ("ref_missing", 5),
        ],
        "{told:?}"
    );
    assert_eq!(told[3].2, "the context file `big.txt` has 10485761 bytes, and may have 10485760");
    assert_eq!(
        told[4].2,
        "the context file `latin.txt` is no text: the byte 0xE9 is no UTF-8 text (line 1, column 4)"
    );
    assert_eq!(told[5].2, "the context file `sub` is not a file");
}

/// Ids are of their own list, as the format has it.
#[test]
fn a_step_in_a_loop_that_hides_one_outside_is_a_warning() {
    let text = "name: n\nsteps:\n  - id: draft\n  - id: refine\n    dependsOn: [draft]\n    loop:\n      maxIterations: 2\n      \
                steps:\n        - id: draft\n        - id: refine\n        - id: other\n";
    let folder = Folder::new(&[("flow.yaml", text)]);
    let told: Vec<(&str, u32, String)> =
        folder.loaded().warnings.iter().map(|one| (one.code.text(), one.line, one.hint.clone())).collect();
    let hint = |line: u32, id: &str| {
        format!(
            "line {line} has the same `id`: rename one of the two, unless `steps.{id}` in the loop means this one"
        )
    };
    assert_eq!(told, [("duplicate_step", 9, hint(3, "draft")), ("duplicate_step", 10, hint(4, "refine"))]);
}

/// What they need in common is asked before the first step.
#[test]
fn inputs_are_checked_by_every_workflow_that_is_included() {
    let inner = "name: inner\ninputs: {type: object, required: [n], properties: {n: {type: integer, minimum: 3}}}\n\
                 steps: [{id: x, include: deep.yaml}]";
    let deep =
        "name: deep\ninputs: {type: object, properties: {s: {type: string, maxLength: 2}}}\nsteps: [{id: y}]";
    let folder = Folder::new(&[
        (
            "flow.yaml",
            "name: n\ninputs: {type: object, required: [n], properties: {n: {type: integer}, s: {type: string}}}\n\
             steps: [{id: l, loop: {forEach: [1], steps: [{id: a, include: inner.yaml}]}}]",
        ),
        ("inner.yaml", inner),
        ("deep.yaml", deep),
    ]);
    let loaded = folder.loaded();
    let check = |inputs: &str| tenon_flow::check_inputs(&loaded, inputs).map_err(|error| error.to_string());
    assert_eq!(check(r#"{"n": 3, "s": "ab"}"#), Ok(()));
    let refused = |inputs: &str, words: &[&str]| {
        let told = check(inputs).unwrap_err();
        assert!(words.iter().all(|word| told.contains(word)), "{told}");
    };
    refused(r#"{"n": "3"}"#, &["do not fit the document", "/n"]);
    refused(r#"{"n": 2}"#, &["the included workflow `inner`", "/n"]);
    refused(r#"{"n": 3, "s": "abc"}"#, &["the included workflow `deep`", "/s"]);
}

#[test]
fn numbers_that_are_not_whole_or_too_large_say_which() {
    for (retries, message) in [
        ("1.5", "`retries` must be a whole number, got 1.5"),
        ("1e30", "`retries` is too large: 1e30"),
        ("99999999999999999999", "`retries` is too large: 99999999999999999999"),
        ("2000000", "retries must be at most 1000000, got 2000000"),
        ("'3'", "`retries` must be a whole number, got text"),
    ] {
        let text = format!("name: n\nsteps: [{{id: a, retries: {retries}}}]");
        let found = crate::every_code::found(&text);
        let told: Vec<&str> = found.iter().map(|one| one.message.as_str()).collect();
        assert_eq!(told, [message], "{retries}");
    }
}

/// A loop with steps of its own has no agent: what is written about one would look like a choice and be none.
#[test]
fn what_a_loop_with_steps_does_not_use_is_a_warning() {
    let folder = Folder::new(&[
        (
            "flow.yaml",
            "name: n\nagents: {x: {description: X}}\nsteps:\n  - {id: l, agent: x, model: big, instructions: Go, contextFiles: [a.md],\n     loop: {maxIterations: 1, steps: [{id: i}]}}\n  - {id: m, agent: x, model: big, instructions: Go, loop: {maxIterations: 1}}\n",
        ),
        ("a.md", "text"),
    ]);
    let warnings = folder.loaded().warnings;
    let told: Vec<(&str, u32, u32, &str)> =
        warnings.iter().map(|one| (one.code.text(), one.line, one.column, one.message.as_str())).collect();
    let unused = |field: &str| format!("`{field}` of step `l` is not used: its loop has steps of its own");
    let [agent, instructions, model, files] = ["agent", "instructions", "model", "contextFiles"].map(unused);
    assert_eq!(
        told,
        [
            ("loop_validation", 4, 20, agent.as_str()),
            ("loop_validation", 4, 30, model.as_str()),
            ("loop_validation", 4, 49, instructions.as_str()),
            ("loop_validation", 4, 67, files.as_str()),
        ]
    );
}
