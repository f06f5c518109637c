//! What somebody writes who knows YAML a little and this format not at all: what they are told, and where.

use crate::every_code::{found, marked};

/// The document, with `‸` before what is pointed at; what is said; what to do.
const TABLE: &[(&str, &str, &str)] = &[
    (
        "name: n\nsteps:\n  - id: a\n   ‸instructions: x\n",
        "this line is indented differently from those around it",
        "indent the fields of one map alike, and the `- ` of one list alike",
    ),
    (
        "name: n\nsteps:\n‸\t- id: a\n",
        "a tab indents this line",
        "indent by spaces: YAML does not allow tabs",
    ),
    (
        "name: n\nsteps:\n  - id: a\n    instructions: Do this‸: that\n",
        "a text with `: ` in it reads as one more key",
        "put the whole text in quotes",
    ),
    (
        "name: n\nsteps:\n  ‸id: a\n",
        "`steps` must be a list of steps, got a map",
        "each step begins with `- id: …` on a line of its own below `steps:`",
    ),
    (
        "name: n\nsteps:\n  - id: a\n    instructions: ‸\"Say hi\n  - id: b\n",
        "the quote that begins here is not closed",
        "close it by `\"`",
    ),
    (
        "name: n\nsteps:\n  - id: a\n    instructions: 'It'‸s fine'\n",
        "something follows a text in quotes",
        "put the whole text in quotes; inside single quotes, `'` is written `''`",
    ),
    (
        "‸name:n\nsteps:\n",
        "a workflow must be a map, got text",
        "begin with `name: …` and `steps:`, a space after each colon",
    ),
    (
        "‸- a\n- b\n",
        "a workflow must be a map, got a list",
        "begin with `name: …` and `steps:`, a space after each colon",
    ),
    ("name: n\nsteps: [‸a]\n", "a step must be a map, got text", "each step begins with `- id: …`"),
    (
        "name: n\nsteps:\n  - id: a\n    instructions: fix ‸#12 first\n",
        "`#12 first` is a comment here, and no part of the text",
        "put the whole text in quotes, or a space after the `#` of a comment",
    ),
    (
        "name: n\nsteps:\n  - id: a\n    instructions: ‸@prompt.md\n",
        "`@` cannot begin a value",
        "put the text in quotes",
    ),
    (
        "name: n\nsteps:\n  - id: a\n    instructions: ‸`x` here\n",
        "a backtick cannot begin a value",
        "put the text in quotes",
    ),
    (
        "name: n\nsteps:\n  - id: a\n    instructions: ‸*.rs files\n",
        "an alias names an anchor that is not there",
        "define it before: `&name`; a text that begins with `*` stands in quotes",
    ),
    (
        "name: n\nsteps:\n  - id: a\n    instructions: ‸!important do\n",
        "the tag `!important` has no meaning here",
        "take it out; a text that begins with `!` stands in quotes",
    ),
    (
        "name: n\nsteps: [{id: a}]\n‸---\nname: m\n",
        "only the first document of a file is read, and this begins a second one",
        "put it into a file of its own, or take out the `---`",
    ),
    (
        "name: n\nsteps: [{id: a}, {id: b, ‸needs: [a]}]",
        "`needs` is not a field of a step",
        "did you mean `dependsOn`?",
    ),
    (
        "name: n\nsteps: [{id: a, ‸prompt: x}]",
        "`prompt` is not a field of a step",
        "did you mean `instructions`?",
    ),
    ("name: n\n‸jobs: {}\nsteps: [{id: a}]", "`jobs` is not a field of a workflow", "did you mean `steps`?"),
    (
        "name: n\nsteps: [{id: a, agent: ‸{description: d}}]",
        "`agent` must be text, got a map",
        "describe it under `agents:`, and name it here",
    ),
    (
        "name: n\nagents: {w: {description: d, tools: ‸'*'}}\nsteps: [{id: a, agent: w}]",
        "`tools` must be a list of text, got text",
        "leave `tools` out for all of them",
    ),
    (
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], instructions: 'Use ‸{{ steps.a.content }}'}]",
        "`{{ steps.a.content }}` is text: an expression stands in `${{ … }}`",
        "write a `$` before the braces",
    ),
    (
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], condition: \"‸${{ steps.a.content == '' }}\"}]",
        "not an expression: `${{` stands around an expression in a text, and this is one already",
        "take `${{` and `}}` out: only instructions have them",
    ),
    (
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], condition: \"steps.a.content == '' ‸and true\"}]",
        "not an expression: `and` is no operator",
        "write `&&`",
    ),
    (
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], condition: \"steps.a.content == ‸“x”\"}]",
        "not an expression: `“` is no quote here",
        "write `'` or `\"`",
    ),
    (
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], condition: \"‸(steps.a.content == 'x' && (true)\"}]",
        "not an expression: `(` is not closed",
        "close it by `)`",
    ),
    (
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], condition: \"steps.a.content ‸'x'\"}]",
        "not an expression: `'x'` is not expected here",
        "take it out, or put an operator (`&&`, `||`, `==`, `+`) before it",
    ),
    (
        "name: n\nsteps: [{id: a, loop: {forEach: 'one‸, two'}}]",
        "not an expression: `,` is not expected here",
        "a list is written in brackets: `['one', 'two']`",
    ),
    (
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], condition: ‸a.content == ''}]",
        "`a` is not a name an expression can use",
        "a step is written `steps.a`",
    ),
    (
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], condition: ‸len(steps.a.content) > 3}]",
        "there is no function `len` with these arguments",
        "write `size(…)`",
    ),
    (
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a], condition: steps.a.status == ‸True}]",
        "`True` is not a name an expression can use",
        "write `true`",
    ),
    (
        "name: n\nsteps: [{id: a, retries: ‸03}]",
        "`retries` is read as different numbers by different readers",
        "write it in quotes for text, or without the leading zero for a number",
    ),
    (
        "name: n\nsteps: [{id: a, loop: ‸[{forEach: [1]}]}]",
        "a loop must be a map, got a list",
        "write its fields below it, indented further: `maxIterations:`, `until:`, `untilAgent:` …",
    ),
];

/// Nothing else is said of them: what follows from a mistake is no mistake of its own.
#[test]
fn they_are_told_what_is_wrong_and_what_to_do() {
    for (text, message, hint) in TABLE {
        let (text, line, column, _) = marked(text);
        let all = found(&text);
        let told: Vec<(u32, u32, &str, &str)> =
            all.iter().map(|one| (one.line, one.column, one.message.as_str(), one.hint.as_str())).collect();
        assert_eq!(told, [(line, column, *message, *hint)], "{text}");
    }
}
