//! Documents of every kind, to be killed while they run. The first word of a task tells the model of `world.rs` what to do.

/// Documents that are killed, each with the files it includes.
pub const DOCUMENTS: &[&[(&str, &str)]] = &[EVERYTHING, NESTED, BATCHES, TALK, ASKS, HELPED, PLANNED];

/// Parallel steps, a rejected result, a condition, items with steps of their own, a judge, a loop until a result, a step
/// that fails once, an include.
pub const EVERYTHING: &[(&str, &str)] = &[
    (
        "flow.yaml",
        r#"
name: everything
options: {maxConcurrency: 3}
agents:
  worker: {description: works, tools: [run_shell_command]}
  typed:
    description: types
    tools: []
    resultSchema: {type: object, properties: {list: {type: array, items: {type: string}}}, required: [list]}
  counter:
    description: counts
    tools: []
    resultSchema: {type: object, properties: {n: {type: integer}}, required: [n]}
  unsure:
    description: fails once
    tools: [run_shell_command]
    resultSchema: {type: object, properties: {ok: {type: boolean}}, required: [ok]}
  judge:
    description: judges
    tools: []
    resultSchema: {type: object, properties: {done: {type: boolean}}, required: [done]}
steps:
  - {id: left, agent: worker, instructions: "DO:left"}
  - {id: right, agent: worker, instructions: "DO:right"}
  - {id: flaky, agent: unsure, instructions: "DO:flaky", retries: 1, timeout: 10m}
  - {id: types, agent: typed, instructions: "DO:types", dependsOn: [left]}
  - {id: never, instructions: "DO:never", dependsOn: [types], condition: "size(steps.types.result.list) > 5"}
  - id: each
    dependsOn: [types, right]
    loop:
      forEach: steps.types.result.list
      maxConcurrency: 2
      steps:
        - {id: do, agent: worker, instructions: "DO:item ${{ item }}"}
        - {id: note, instructions: "DO:note", dependsOn: [do]}
  - id: polish
    dependsOn: [right]
    agent: worker
    instructions: "DO:polish"
    loop: {maxIterations: 4, untilAgent: judge}
  - id: count
    dependsOn: [left]
    agent: counter
    instructions: "DO:count"
    loop: {maxIterations: 4, until: "result.n >= 2"}
  - {id: inner, include: inner.yaml, dependsOn: [polish]}
  - {id: end, agent: worker, instructions: "DO:end", dependsOn: [each, inner, count]}
outputs:
  end: steps.end.content
  list: steps.types.result.list
  flaky: steps.flaky.result.ok
"#,
    ),
    (
        "inner.yaml",
        r#"
name: inner
agents:
  inside: {description: works, tools: [run_shell_command]}
steps:
  - {id: a, agent: inside, instructions: "DO:inner-a"}
  - {id: b, agent: inside, instructions: "DO:inner-b", dependsOn: [a]}
"#,
    ),
];

/// Includes in items, loops in includes, and a sub-workflow in a loop that a judge ends.
pub const NESTED: &[(&str, &str)] = &[
    (
        "flow.yaml",
        r#"
name: nested
agents:
  judge:
    description: judges
    tools: []
    resultSchema: {type: object, properties: {done: {type: boolean}}, required: [done]}
steps:
  - {id: start, instructions: "DO:start"}
  - id: all
    dependsOn: [start]
    loop:
      forEach: [x, y]
      maxConcurrency: 2
      steps:
        - {id: deeper, include: deeper.yaml}
  - id: again
    dependsOn: [start]
    loop:
      maxIterations: 3
      untilAgent: judge
      steps:
        - {id: inside, include: leaf.yaml}
        - {id: polish, instructions: "DO:polish", dependsOn: [inside]}
  - {id: end, instructions: "DO:end", dependsOn: [all, again]}
"#,
    ),
    (
        "deeper.yaml",
        r#"
name: deeper
agents:
  inner-counter:
    description: counts
    tools: []
    resultSchema: {type: object, properties: {n: {type: integer}}, required: [n]}
  deep: {description: works, tools: [run_shell_command]}
steps:
  - {id: first, agent: deep, instructions: "DO:first"}
  - {id: leaf, include: leaf.yaml, dependsOn: [first]}
  - {id: count, agent: inner-counter, instructions: "DO:count", dependsOn: [leaf], loop: {maxIterations: 3, until: "result.n >= 1"}}
"#,
    ),
    (
        "leaf.yaml",
        r#"
name: leaf
agents:
  leafy: {description: works, tools: [run_shell_command]}
steps:
  - {id: leaf-a, agent: leafy, instructions: "DO:leaf-a"}
  - {id: leaf-b, instructions: "DO:leaf-b", dependsOn: [leaf-a]}
"#,
    ),
];

/// Several calls in one turn, side by side and in a row.
pub const BATCHES: &[(&str, &str)] = &[(
    "flow.yaml",
    r#"
name: batches
agents:
  worker: {description: works, tools: [run_shell_command, list_directory]}
steps:
  - {id: one, agent: worker, instructions: "DO:batch one"}
  - {id: two, agent: worker, instructions: "DO:batch two"}
  - {id: three, agent: worker, instructions: "DO:batch three", dependsOn: [one]}
  - {id: end, agent: worker, instructions: "DO:batch end", dependsOn: [two, three]}
"#,
)];

/// A note in the shared memory and two messages, read by a later step.
pub const TALK: &[(&str, &str)] = &[(
    "flow.yaml",
    r#"
name: talk
agents:
  talker: {description: talks, tools: [run_shell_command]}
steps:
  - {id: say, agent: talker, instructions: "DO:say"}
  - {id: also, agent: talker, instructions: "DO:also"}
  - {id: hear, agent: talker, instructions: "DO:hear", dependsOn: [say, also]}
"#,
)];
/// Questions to people: beside work, in items and in an include.
pub const ASKS: &[(&str, &str)] = &[
    (
        "flow.yaml",
        r#"
name: asks
agents:
  worker: {description: works, tools: [run_shell_command]}
steps:
  - {id: first, agent: worker, instructions: "DO:first"}
  - {id: right, agent: worker, instructions: "DO:right"}
  - {id: gate, approve: {message: "Go on? ${{ steps.first.content }}", timeout: 24h}, dependsOn: [first]}
  - id: each
    dependsOn: [right]
    loop:
      forEach: [x, y]
      steps:
        - {id: ok, approve: "Item ${{ item }}?"}
        - {id: do, agent: worker, instructions: "DO:item ${{ item }}", dependsOn: [ok]}
  - {id: inner, include: inner.yaml, dependsOn: [gate]}
  - {id: end, agent: worker, instructions: "DO:end", dependsOn: [gate, each, inner]}
"#,
    ),
    (
        "inner.yaml",
        r#"
name: inner
agents:
  inside: {description: works, tools: [run_shell_command]}
steps:
  - {id: ask, approve: "Inside?"}
  - {id: a, agent: inside, instructions: "DO:inner-a", dependsOn: [ask]}
"#,
    ),
];

/// Helpers in a loop, side by side with a judge.
pub const HELPED: &[(&str, &str)] = &[(
    "flow.yaml",
    r#"
name: helped
agents:
  lead: {description: leads, tools: [agent, run_shell_command]}
  judge:
    description: judges
    tools: []
    resultSchema: {type: object, properties: {done: {type: boolean}}, required: [done]}
steps:
  - {id: one, agent: lead, instructions: "DO:lead one"}
  - {id: polish, agent: lead, instructions: "DO:polish", loop: {maxIterations: 3, untilAgent: judge}}
  - {id: end, agent: lead, instructions: "DO:lead end", dependsOn: [one, polish]}
"#,
)];

/// A goal: its plan is made, repaired once, and run.
pub const PLANNED: &[(&str, &str)] = &[(GOAL_FILE, "DO:plan")];
/// Holds the goal of a world that has no document of its own.
pub const GOAL_FILE: &str = "goal.txt";
/// How the task of a helper begins.
pub const HELP: &str = "HELP:";

/// What is said in `TALK`: in messages, and in the memory.
pub const NEWS: [&str; 2] = ["NEWS of say", "NEWS of also"];
pub const NOTE: &str = "open from 9 to 6";
