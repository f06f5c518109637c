//! One document for every code: where it points, what its line looks like, and what there is to do about it.
//!
//! `‸` stands before the character that must be pointed at, and is taken out before the document is read.

use std::fs;
use std::path::Path;

use tenon_flow::{Code, Diagnostic, LoadError, LoadOptions, load};
use unicode_width::UnicodeWidthChar;

const MARK: char = '‸';

/// What stands beside the document.
const FILES: &[(&str, &str)] = &[
    ("plain.yaml", "name: p\nsteps: [{id: a}]"),
    ("agent.yaml", "name: c\nagents: {w: {description: d}}\nsteps: [{id: a, agent: w}]"),
    ("self.yaml", "name: s\nsteps: [{id: a, include: self.yaml}]"),
    (
        "wants.yaml",
        "name: w\ninputs: {type: object, required: [topic], properties: {topic: {type: string}}}\nsteps: [{id: a}]",
    ),
    ("gives.yaml", "name: g\nsteps: [{id: a}]\noutputs: {answer: steps.a.content}"),
];

/// Code, document, hint.
const TABLE: &[(&str, &str, &str)] = &[
    ("missing_name", "‸steps: [{id: a}]", "write `name: …` at the top of the document"),
    ("missing_steps", "‸name: n", "each step begins with `- id: …` on a line of its own below `steps:`"),
    (
        "empty_steps",
        "name: n\nsteps: ‸[]",
        "each step begins with `- id: …` on a line of its own below `steps:`",
    ),
    ("unknown_version", "name: n\nversion: ‸2\nsteps: [{id: a}]", "write `version: 1`, or leave it out"),
    (
        "agent_missing_description",
        "name: n\nagents:\n  ‸w: {}\nsteps: [{id: a, agent: w}]",
        "write `description: …` below it: what the agent is, in a few words",
    ),
    (
        "invalid_step_id",
        "name: n\nsteps:\n  - id: ‸Run Tests!",
        "such as `run-tests`: a small letter first, then small letters, digits, `_` and `-`, 64 in all",
    ),
    (
        "invalid_step_id",
        "name: n\nsteps:\n  - ‸agent: w\nagents: {w: {description: d}}",
        "give it a name: `id: …`",
    ),
    (
        "duplicate_step",
        "name: n\nsteps:\n  - id: a\n  - id: ‸a",
        "line 3 has the same one: give one of the two another `id`",
    ),
    (
        "missing_agent",
        "name: n\nagents: {writer: {description: d}}\nsteps: [{id: a, agent: ‸wirter}]",
        "did you mean `writer`?",
    ),
    (
        "missing_agent",
        "name: n\nsteps: [{id: a, agent: ‸writer}]",
        "describe it under `agents:`, with a `description`",
    ),
    (
        "missing_dep",
        "name: n\nsteps: [{id: build}, {id: ship, dependsOn: [‸biuld]}]",
        "did you mean `build`?",
    ),
    (
        "missing_dep",
        "name: n\nsteps: [{id: ship, dependsOn: [‸build]}]",
        "there is no other step here: leave `dependsOn` out",
    ),
    (
        "missing_dep",
        "name: n\nsteps: [{id: a}, {id: l, loop: {forEach: [1], steps: [{id: i, dependsOn: [‸a]}]}}]",
        "it is outside the loop: add `a` to `dependsOn` of the step that has the loop",
    ),
    (
        "cycle",
        "name: n\nsteps:\n  - {id: a, dependsOn: ‸[b]}\n  - {id: b, dependsOn: [a]}",
        "take one of them out of a `dependsOn`, so that one can begin",
    ),
    ("cycle", "name: n\nsteps: [{id: a, dependsOn: ‸[a]}]", "take `a` out of its own `dependsOn`"),
    (
        "include_has_agent",
        "name: n\nagents: {w: {description: d}}\nsteps: [{id: a, include: plain.yaml, agent: ‸w}]",
        "take `agent` out: the included workflow brings its own",
    ),
    (
        "include_has_instructions",
        "name: n\nsteps: [{id: a, include: plain.yaml, instructions: ‸do}]",
        "take `instructions` out: the included workflow brings its own",
    ),
    (
        "include_has_loop",
        "name: n\nsteps: [{id: a, include: plain.yaml, loop: ‸{forEach: [1]}}]",
        "put the `include` into a step of the loop: `loop: {steps: [{id: …, include: …}]}`",
    ),
    (
        "include_has_condition",
        "name: n\nsteps: [{id: a, include: plain.yaml, condition: ‸'true'}]",
        "write the condition at a step of the included workflow",
    ),
    (
        "include_has_contextfiles",
        "name: n\nsteps: [{id: a, include: plain.yaml, contextFiles: ‸[plain.yaml]}]",
        "take `contextFiles` out: the included workflow brings its own",
    ),
    (
        "include_has_model",
        "name: n\nsteps: [{id: a, include: plain.yaml, model: ‸m}]",
        "take `model` out: the included workflow brings its own",
    ),
    (
        "loop_missing_max_iterations",
        "name: n\nsteps:\n  - id: a\n    loop:\n      ‸until: 'true'",
        "say how often at most with `maxIterations`, or over what with `forEach`",
    ),
    (
        "foreach_with_max_iterations",
        "name: n\nsteps: [{id: a, loop: {forEach: [1], maxIterations: ‸3}}]",
        "a loop goes over items or repeats: take `maxIterations` or `forEach` out",
    ),
    (
        "foreach_with_until",
        "name: n\nsteps: [{id: a, loop: {forEach: [1], until: ‸'true'}}]",
        "a loop goes over items or repeats: take `until` or `forEach` out",
    ),
    (
        "foreach_with_untilagent",
        "name: n\nagents: {j: {description: d, resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}}}\nsteps: [{id: a, loop: {forEach: [1], untilAgent: ‸j}}]",
        "a loop goes over items or repeats: take `untilAgent` or `forEach` out",
    ),
    (
        "foreach_with_delay",
        "name: n\nsteps: [{id: a, loop: {forEach: [1], delay: ‸1s}}]",
        "a loop goes over items or repeats: take `delay` or `forEach` out",
    ),
    (
        "foreach_empty_array",
        "name: n\nsteps: [{id: a, loop: {forEach: ‸[]}}]",
        "write the items, or an expression that gives them when it runs",
    ),
    (
        "nested_loop_prohibited",
        "name: n\nsteps: [{id: a, loop: {forEach: [1], steps: [{id: b, loop: ‸{forEach: [2]}}]}}]",
        "put the inner loop into a workflow of its own and `include` it",
    ),
    (
        "loop_validation",
        "name: n\nsteps: [{id: a, loop: {maxIterations: 2, outputMode: ‸everything}}]",
        "write one of them, or leave `outputMode` out",
    ),
    (
        "loop_validation",
        "name: n\nsteps: [{id: a, loop: {forEach: ‸3}}]",
        "write a list (`[a, b]`), or an expression that gives one (`steps.plan.result.files`)",
    ),
    (
        "untilagent_bad_ref",
        "name: n\nagents: {judge: {description: d}}\nsteps: [{id: a, loop: {maxIterations: 2, untilAgent: ‸jugde}}]",
        "did you mean `judge`?",
    ),
    (
        "negative_value",
        "name: n\nsteps: [{id: a, loop: {maxIterations: ‸0}}]",
        "write how often at most: 1 or more",
    ),
    (
        "negative_value",
        "name: n\nsteps: [{id: a}]\noptions: {maxConcurrency: ‸-1}",
        "write 0 or more, or leave it out",
    ),
    (
        "validation",
        "name: n\nsteps: [{id: a, timeout: ‸30}]",
        "name the unit: `timeout: 30s` for seconds, `m` for minutes, `h` for hours",
    ),
    (
        "validation",
        "name: n\nsteps: [{id: a, timeout: ‸'30'}]",
        "durations are written in quotes or with their unit: `45s`, `10m`, `1h30m`",
    ),
    ("validation", "name: n\nsteps: [{id: a, retries: ‸two}]", "write digits without quotes: `retries: 3`"),
    ("validation", "name: n\nsteps: [{id: a, retries: ‸'2'}]", "write digits without quotes: `retries: 2`"),
    ("validation", "name: n\nversion: ‸\"1\"\nsteps: [{id: a}]", "write `version: 1`, or leave it out"),
    ("validation", "name: n\nversion: ‸'2'\nsteps: [{id: a}]", "write `version: 1`, or leave it out"),
    ("validation", "name: n\nversion: ‸v1\nsteps: [{id: a}]", "write `version: 1`, or leave it out"),
    ("validation", "name: n\nversion: ‸1.5\nsteps: [{id: a}]", "write `version: 1`, or leave it out"),
    ("validation", "name: n\nversion: ‸0\nsteps: [{id: a}]", "write `version: 1`, or leave it out"),
    ("validation", "name: n\nversion: ‸[1]\nsteps: [{id: a}]", "write `version: 1`, or leave it out"),
    (
        "validation",
        "name: n\nversion: ‸99999999999999999999\nsteps: [{id: a}]",
        "write `version: 1`, or leave it out",
    ),
    ("validation", "name: n\nsteps: [{id: a, dependsOn: ‸b}, {id: b}]", "write `dependsOn: [b]`"),
    ("validation", "name: n\n‸name: m\nsteps: [{id: a}]", "take one of the two out, or give it another name"),
    ("validation", "name: n\nsteps:\n‸\t- id: a", "indent by spaces: YAML does not allow tabs"),
    (
        "validation",
        "name: n\nagents:\n  ‸My Agent: {description: d}\nsteps: [{id: a}]",
        "such as `my-agent`: a small letter first, then small letters, digits, `_` and `-`, 64 in all",
    ),
    (
        "approve_conflict",
        "name: n\nsteps: [{id: a, approve: Go?, timeout: ‸1h}]",
        "write it inside: `approve: {message: …, timeout: …}`",
    ),
    (
        "approve_conflict",
        "name: n\nsteps: [{id: a, approve: Go?, loop: ‸{maxIterations: 2}}]",
        "put the question into a step of the loop: `loop: {steps: [{id: …, approve: …}]}`",
    ),
    ("unknown_field", "name: n\nsteps: [{id: a, ‸dependOn: [b]}, {id: b}]", "did you mean `dependsOn`?"),
    ("unknown_field", "name: n\nsteps: [{id: a}]\n‸temperature: 1", "it is a field of an agent"),
    (
        "unicode_unsafe",
        "name: n\nsteps: [{id: a, instructions: ‸\"say \\u202e this\"}]",
        "take it out: it shows the text differently from what it says",
    ),
    (
        "unicode_unsafe",
        "name: ‸pаypal\nsteps: [{id: a}]",
        "write it in one script: letters that look alike are not the same",
    ),
    (
        "too_large",
        "name: n\nsteps: [{id: a, condition: '‸LONG'}]",
        "let a step work it out and submit the answer, or split the expression",
    ),
    (
        "ref_missing",
        "name: n\nsteps: [{id: a, instructions: ‸'@prompt.md'}]",
        "a text that begins with `@` names a file, relative to the document",
    ),
    (
        "ref_missing",
        "name: n\nsteps: [{id: a, contextFiles: [‸notes.md]}]",
        "a step before may still make it; otherwise the agent is told that it cannot be read",
    ),
    (
        "ref_escape",
        "name: n\nsteps: [{id: a, instructions: ‸'@../prompt.md'}]",
        "move or copy the file into the folder of the document, or the document up",
    ),
    (
        "include_missing",
        "name: n\nsteps: [{id: a, include: ‸other.yaml}]",
        "paths start at the folder of the document; is the name right?",
    ),
    (
        "include_missing",
        "name: n\nincludes: {deploy: plain.yaml}\nsteps: [{id: a, include: ‸deplyo}]",
        "did you mean `deploy`?",
    ),
    (
        "include_escape",
        "name: n\nsteps: [{id: a, include: ‸../other.yaml}]",
        "move or copy the file into the folder of the document, or the document up",
    ),
    (
        "include_depth",
        "name: n\nsteps: [{id: a, include: ‸flow.yaml}]",
        "a workflow that is done again and again is a `loop`",
    ),
    (
        "include_collision",
        "name: n\nagents: {w: {description: d}}\nsteps: [{id: a, include: ‸agent.yaml}]",
        "give the agent another name in one of the two documents",
    ),
    (
        "include_inputs",
        "name: n\nsteps: [{id: a, include: ‸wants.yaml}]",
        "declare them here under `inputs:`; an included workflow is given those of the run",
    ),
    (
        "schema_invalid",
        "name: n\nagents: {w: {description: d, resultSchema: {type: object, ‸requierd: [a]}}}\nsteps: [{id: a, agent: w}]",
        "`tenon schema check` says more about a schema; as in `{type: object, properties: {ok: {type: boolean}}}`",
    ),
    (
        "unknown_tool",
        "name: n\nagents: {w: {description: d, tools: [‸bsh]}}\nsteps: [{id: a, agent: w}]",
        "did you mean `bash`?",
    ),
    (
        "unknown_model",
        "name: n\nsteps: [{id: a, model: ‸odd}]",
        "name another model, or give the provider's key and settings before the run",
    ),
    (
        "cel_syntax",
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], condition: steps.a.status ‸= 'x'}]",
        "write `==` to compare",
    ),
    (
        "cel_syntax",
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], condition: \"steps.a.status == ‸'completed\"}]",
        "close it by `'`; inside, `'` is written `\\'`",
    ),
    (
        "cel_type",
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], condition: ‸stpes.a.status == 'failed'}]",
        "did you mean `steps`?",
    ),
    (
        "cel_unknown_step",
        "name: n\nsteps: [{id: test}, {id: b, dependsOn: [test], condition: steps.‸tset.status == 'failed'}]",
        "did you mean `test`?",
    ),
    (
        "cel_unknown_field",
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], condition: steps.a.‸contents == ''}]",
        "did you mean `content`?",
    ),
    (
        "cel_unknown_field",
        "name: n\nsteps: [{id: a, include: gives.yaml}]\noutputs: {x: steps.a.result.‸anwser}",
        "did you mean `answer`?",
    ),
];

pub fn found(text: &str) -> Vec<Diagnostic> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in FILES {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let path = folder.path().join("flow.yaml");
    fs::write(&path, text).unwrap();
    let mut options = LoadOptions::default();
    options.doubt_model(|name| (name == "odd").then(|| "nobody knows it".to_owned()));
    match load(&path, &options) {
        Ok(loaded) => loaded.warnings,
        Err(LoadError::Invalid(found)) => found,
        Err(error) => panic!("{error}\n{text}"),
    }
}

/// The text without its mark, and where that stood.
pub fn marked(text: &str) -> (String, u32, u32, char) {
    let at = text.find(MARK).unwrap_or_else(|| panic!("no mark in {text}"));
    let line_start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    let line = u32::try_from(text[..at].matches('\n').count()).unwrap() + 1;
    let column = u32::try_from(text[line_start..at].chars().count()).unwrap() + 1;
    let pointed = text[at + MARK.len_utf8()..].chars().next().unwrap();
    (text.replacen(MARK, "", 1), line, column, pointed)
}

/// The character above the caret, cell by cell.
fn above_the_caret(snippet: &str) -> Option<char> {
    let lines: Vec<&str> = snippet.lines().collect();
    let [_, shown, caret] = lines.as_slice() else { panic!("{snippet}") };
    let at = caret.chars().position(|c| c == '^')?;
    let mut cells = 0;
    for c in shown.chars() {
        if cells == at {
            return Some(c);
        }
        cells += c.width().unwrap_or(0);
    }
    None
}

fn check(code: &str, text: &str, hint: &str) {
    let (text, line, column, pointed) = marked(&text.replace("LONG", &vec!["1"; 2100].join("+")));
    let all = found(&text);
    let told: String = all.iter().map(|problem| format!("{problem}\n")).collect();
    let one = all
        .iter()
        .find(|one| one.code.text() == code && (one.line, one.column) == (line, column))
        .unwrap_or_else(|| panic!("no `{code}` at {line}:{column}\n{text}\n{told}"));
    assert_eq!(one.hint, hint, "{code}\n{text}");
    let shown = if pointed.is_control() { ' ' } else { pointed };
    assert_eq!(above_the_caret(&one.snippet), Some(shown), "{code}\n{}", one.snippet);
    for other in &all {
        assert!(!other.hint.is_empty() && !other.snippet.is_empty(), "{text}\n{other}");
    }
}

#[test]
fn every_code_points_at_its_place_and_says_what_to_do() {
    for (code, text, hint) in TABLE {
        check(code, text, hint);
    }
    for (code, name) in Code::ALL {
        assert!(TABLE.iter().any(|(listed, _, _)| listed == name), "{code:?} has no document");
    }
}

#[test]
fn the_caret_finds_its_character_in_any_line() {
    let hint = "did you mean `content`?";
    let step = |condition: &str| {
        format!("name: n\nsteps:\n  - id: a\n  - id: b\n    dependsOn: [a]\n    {condition}\n")
    };
    let field = "cel_unknown_field";
    for condition in [
        "condition: \"'日本語' == steps.a.‸contetn\"",
        "condition: \"'é😀' == steps.a.‸contetn\"",
        "condition:\t\"'\t' == steps.a.‸contetn\"",
        "condition: \"'e\u{301}' == steps.a.‸contetn\"",
        "condition: \"\\x27\\u65e5\\x27 == steps.a.‸contetn\"",
        "condition: 'steps.a.content == ''x'' && steps.a.‸contetn == ''x'''",
        "condition: >-\n      steps.a.content != ''\n      && steps.a.‸contetn != ''",
        "condition:\n      steps.a.content != ''\n      && steps.a.‸contetn != ''",
        "condition: |\n\n      steps.a.content != ''\n        && steps.a.‸contetn != ''\n",
        "condition: \"steps.a.content != ''\n      && \\\n      steps.a.‸contetn != ''\"",
        "condition: has(steps.a.‸contetn)",
        "condition: has(steps.a.content) && has(steps.a.‸contetn)",
        "condition: \"[1].exists(x, steps['a'].‸contetn == string(x))\"",
        "instructions: content contetn ${{ steps.a.content }} ${{ steps.a.‸contetn }}",
        "instructions: >\n      Say ${{ steps.a.content }}\n      and say\n      ${{ steps.a.‸contetn }}",
        "instructions: |\n      Say ${{ steps.a.content }}\n\n        ${{ steps.a.‸contetn }}\n      again",
        "instructions: \"e\u{301}e\u{301} \u{200b}${{ steps.a.‸contetn }}\"",
    ] {
        check(field, &step(condition), hint);
        check(field, &step(condition).replace('\n', "\r\n"), hint);
        check(field, &format!("\u{feff}{}", step(condition)), hint);
    }
}

/// Every one of them, not only the first.
#[test]
fn a_template_hides_none_of_its_problems() {
    let text = "name: n\nsteps:\n  - id: a\n    instructions: |\n      ${{ 1 + }} and ${{ nope }} and ${{ 'open }} and\n      ${{ }} and ${{ stpes.x }} ${{ last";
    let all = found(text);
    let places: Vec<(&str, u32, u32)> =
        all.iter().map(|one| (one.code.text(), one.line, one.column)).collect();
    let wanted = [
        ("cel_syntax", 5, 14),
        ("cel_type", 5, 26),
        ("cel_syntax", 5, 42),
        ("cel_syntax", 6, 7),
        ("cel_type", 6, 22),
        ("cel_syntax", 6, 33),
    ];
    assert_eq!(places, wanted);
}

#[test]
fn a_file_of_instructions_has_its_own_places() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(
        "flow.yaml",
        "name: n\nagents: {w: {description: d, prompt: '@bidi.md'}}\nsteps: [{id: a, instructions: '@chain.md'}, {id: b, instructions: '@task.md'}]",
    );
    write("chain.md", "@task.md\n");
    write("task.md", "\u{feff}# Task\r\n\r\nDo \u{7}this: ${{ steps.b.contents }}\r\n");
    write("bidi.md", "one\ntwo \u{202e}\n");
    let Err(LoadError::Invalid(all)) = load(&folder.path().join("flow.yaml"), &LoadOptions::default()) else {
        panic!("it loads")
    };
    let told: Vec<(&Path, u32, u32, &str)> = all
        .iter()
        .filter(|one| one.is_error())
        .map(|one| (Path::new(one.file.file_name().unwrap()), one.line, one.column, one.code.text()))
        .collect();
    let wanted =
        [(Path::new("bidi.md"), 2, 5, "unicode_unsafe"), (Path::new("task.md"), 3, 23, "cel_unknown_field")];
    assert_eq!(told, wanted, "{all:#?}");
}
