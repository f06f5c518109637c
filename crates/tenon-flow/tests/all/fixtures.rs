//! Documents of every kind the format knows, valid and not. The published schema is held against them too.

/// Name, document, number of steps, order.
pub const VALID: &[(&str, &str, &[&str])] = &[
    (
        "every option",
        "name: n\nsteps: [{id: a}]\noptions: {maxConcurrency: 3, onStepFailure: skip-dependents, timeout: 1h30m, stepTimeout: 45s, isolation: worktree, scheduler: least-busy, maxRetries: 2}",
        &["a"],
    ),
    (
        "sampling at its limits",
        "name: n\nagents:\n  hot: {description: d, temperature: 2.0, topP: 1.0}\n  cold: {description: d, temperature: 0.0, topP: 0.0}\nsteps: [{id: a, agent: hot}, {id: b, agent: cold}]",
        &["a", "b"],
    ),
    (
        "a condition",
        "name: n\nsteps:\n  - id: test\n  - id: ship\n    dependsOn: [test]\n    condition: \"steps.test.status == 'completed'\"",
        &["test", "ship"],
    ),
    (
        "a condition and a loop",
        "name: n\nsteps:\n  - id: check\n  - id: fix\n    dependsOn: [check]\n    condition: steps.check.status == 'completed'\n    loop: {maxIterations: 3, until: content.contains('done'), delay: 5s}",
        &["check", "fix"],
    ),
    ("every field", FULL, &["plan", "build", "deploy", "report"]),
    ("an include by path", "name: n\nsteps: [{id: a, include: other/flow.yaml}]", &["a"]),
    (
        "includes by name",
        "name: n\nincludes: {deploy: d.yaml, check: c.yaml}\nsteps: [{id: a, include: deploy}, {id: b, include: check}, {id: c, include: deploy}]",
        &["a", "b", "c"],
    ),
    (
        "an include that depends",
        "name: n\nsteps: [{id: a}, {id: b, include: x.yaml, dependsOn: [a]}]",
        &["a", "b"],
    ),
    (
        "an include with a timeout",
        "name: n\nsteps: [{id: a, include: x.yaml, timeout: 10m, retries: 2}]",
        &["a"],
    ),
    (
        "a loop over an expression",
        "name: n\nsteps: [{id: list}, {id: each, dependsOn: [list], loop: {forEach: steps.list.result.items}}]",
        &["list", "each"],
    ),
    (
        "a loop over a list",
        "name: n\nsteps: [{id: each, loop: {forEach: [api, web, 3, {k: v}], maxConcurrency: 2}}]",
        &["each"],
    ),
    (
        "a cumulative loop",
        "name: n\nsteps: [{id: a, loop: {maxIterations: 2, outputMode: cumulative}}]",
        &["a"],
    ),
    (
        "a loop of steps",
        "name: n\nsteps:\n  - id: refine\n    loop:\n      maxIterations: 5\n      until: steps.review.content.contains('LGTM')\n      delay: 1s\n      steps: [{id: write}, {id: review, dependsOn: [write]}]",
        &["refine"],
    ),
    (
        "a loop with a judge",
        "name: n\nagents:\n  judge: {description: d, resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}}\nsteps: [{id: a, loop: {maxIterations: 3, untilAgent: judge, steps: [{id: x}, {id: y}]}}]",
        &["a"],
    ),
    ("one step", "name: n\nsteps:\n  - id: only", &["only"]),
    (
        "fan out and in",
        "name: n\nsteps: [{id: a}, {id: b, dependsOn: [a]}, {id: c, dependsOn: [a]}, {id: d, dependsOn: [b, c]}]",
        &["a", "b", "c", "d"],
    ),
    (
        "retries and sampling",
        "name: n\nagents: {w: {description: d, temperature: 0.7, topP: 0.9}}\nsteps: [{id: a, agent: w, retries: 2, maxRetries: 5}]\noptions: {maxRetries: 3}",
        &["a"],
    ),
    (
        "a chain",
        "name: n\nsteps: [{id: c, dependsOn: [b]}, {id: b, dependsOn: [a]}, {id: a}]",
        &["a", "b", "c"],
    ),
    ("context files", "name: n\nsteps: [{id: a, contextFiles: [README.md, src/lib.rs, pic.png]}]", &["a"]),
    (
        "a model for a step",
        "name: n\nagents: {w: {description: d, model: one}}\nsteps: [{id: a, agent: w, model: openai/two}]",
        &["a"],
    ),
    ("retries of a step", "name: n\nsteps: [{id: a, retries: 3, timeout: 2m}]", &["a"]),
    (
        "until and a judge together",
        "name: n\nagents:\n  judge: {description: d, resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}}\nsteps: [{id: a, loop: {maxIterations: 3, until: 'true', untilAgent: judge}}]",
        &["a"],
    ),
    (
        "our own fields",
        "name: n\ninputs: {type: object, properties: {v: {type: string}}}\nsteps: [{id: a, instructions: 'Do ${{ inputs.v }}'}]\noutputs: {answer: steps.a.content}\nbudget: {maxUsd: 2.5, maxTokens: 100000, maxTurns: 40}\nprices: {m: {input: 1, output: 2.5, cacheRead: 0.1}}",
        &["a"],
    ),
];

pub const FULL: &str = "
name: everything
description: All of it.
version: 1
agents:
  worker:
    description: Works.
    prompt: '@prompts/worker.md'
    model: openai/small
    tools: [read, grep]
    disallowedTools: [bash]
    maxTurns: 10
    temperature: 0.5
    topP: 0.9
    resultSchema: {type: object, properties: {ok: {type: boolean}}}
  judge:
    description: Judges.
    resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}
includes: {deploy: deploy.yaml}
steps:
  - {id: plan, agent: worker, instructions: '@plan.md', contextFiles: [a.txt], model: other, timeout: 5m, retries: 1, maxRetries: 2}
  - id: build
    agent: worker
    dependsOn: [plan]
    condition: steps.plan.result.ok
    loop: {maxIterations: 3, untilAgent: judge, delay: 2s, outputMode: cumulative}
  - {id: deploy, include: deploy, dependsOn: [build], timeout: 1h}
  - {id: report, dependsOn: [deploy]}
options: {maxConcurrency: 2, onStepFailure: abort, timeout: 2h, stepTimeout: 10m, scheduler: round-robin}
";

/// Name, document, the category.
pub const INVALID: &[(&str, &str, &str)] = &[
    (
        "agent without a description",
        "name: n\nagents: {a: {prompt: p}}\nsteps: [{id: s}]",
        "agent_missing_description",
    ),
    (
        "negative turns",
        "name: n\nagents: {a: {description: d, maxTurns: -1}}\nsteps: [{id: s}]",
        "validation",
    ),
    (
        "temperature",
        "name: n\nagents: {a: {description: d, temperature: 3.0}}\nsteps: [{id: s}]",
        "validation",
    ),
    ("topP", "name: n\nagents: {a: {description: d, topP: 2.0}}\nsteps: [{id: s}]", "validation"),
    ("empty condition", "name: n\nsteps: [{id: s, condition: ''}]", "validation"),
    ("malformed duration", "name: n\nsteps: [{id: s, timeout: '30'}]", "validation"),
    ("no steps in the list", "name: n\nsteps: []", "empty_steps"),
    ("what happens on failure", "name: n\nsteps: [{id: s}]\noptions: {onStepFailure: explode}", "validation"),
    ("scheduler", "name: n\nsteps: [{id: s}]\noptions: {scheduler: random}", "validation"),
    ("step id", "name: n\nsteps: [{id: 123-invalid}]", "invalid_step_id"),
    (
        "loop without steps in its list",
        "name: n\nsteps: [{id: s, loop: {maxIterations: 2, steps: []}}]",
        "loop_validation",
    ),
    (
        "negative concurrency of a loop",
        "name: n\nsteps: [{id: s, loop: {forEach: [1], maxConcurrency: -1}}]",
        "validation",
    ),
    (
        "output mode",
        "name: n\nsteps: [{id: s, loop: {maxIterations: 2, outputMode: all}}]",
        "loop_validation",
    ),
    ("empty until", "name: n\nsteps: [{id: s, loop: {maxIterations: 2, until: ''}}]", "validation"),
    ("no name", "steps: [{id: s}]", "missing_name"),
    ("no steps", "name: n", "missing_steps"),
    (
        "two agents without description",
        "name: n\nagents: {a: {}, b: {model: m}}\nsteps: [{id: s}]",
        "agent_missing_description",
    ),
    ("negative concurrency", "name: n\nsteps: [{id: s}]\noptions: {maxConcurrency: -2}", "negative_value"),
    ("negative iterations", "name: n\nsteps: [{id: s, loop: {maxIterations: -1}}]", "negative_value"),
    ("negative retries in options", "name: n\nsteps: [{id: s}]\noptions: {maxRetries: -1}", "validation"),
    ("negative model retries", "name: n\nsteps: [{id: s, maxRetries: -1}]", "validation"),
    ("negative retries", "name: n\nsteps: [{id: s, retries: -1}]", "validation"),
    ("unknown field", "name: n\nsteps: [{id: s}]\nauthor: me", "unknown_field"),
    ("negative version", "name: n\nversion: -1\nsteps: [{id: s}]", "validation"),
    ("version zero", "name: n\nversion: 0\nsteps: [{id: s}]", "validation"),
    ("zero iterations", "name: n\nsteps: [{id: s, loop: {maxIterations: 0}}]", "negative_value"),
    (
        "cycle",
        "name: n\nsteps: [{id: a, dependsOn: [c]}, {id: b, dependsOn: [a]}, {id: c, dependsOn: [b]}]",
        "cycle",
    ),
    ("duplicate id", "name: n\nsteps: [{id: a}, {id: a}]", "duplicate_step"),
    ("forEach over nothing", "name: n\nsteps: [{id: a, loop: {forEach: []}}]", "foreach_empty_array"),
    ("forEach and delay", "name: n\nsteps: [{id: a, loop: {forEach: [1], delay: 1s}}]", "foreach_with_delay"),
    (
        "forEach and iterations",
        "name: n\nsteps: [{id: a, loop: {forEach: [1], maxIterations: 2}}]",
        "foreach_with_max_iterations",
    ),
    (
        "forEach and until",
        "name: n\nsteps: [{id: a, loop: {forEach: [1], until: 'true'}}]",
        "foreach_with_until",
    ),
    (
        "forEach and a judge",
        "name: n\nagents: {j: {description: d, resultSchema: {type: object, required: [done], properties: {done: {type: boolean}}}}}\nsteps: [{id: a, loop: {forEach: [1], untilAgent: j}}]",
        "foreach_with_untilagent",
    ),
    (
        "include and agent",
        "name: n\nagents: {w: {description: d}}\nsteps: [{id: a, include: x.yaml, agent: w}]",
        "include_has_agent",
    ),
    (
        "include and condition",
        "name: n\nsteps: [{id: a, include: x.yaml, condition: 'true'}]",
        "include_has_condition",
    ),
    (
        "include and files",
        "name: n\nsteps: [{id: a, include: x.yaml, contextFiles: [f]}]",
        "include_has_contextfiles",
    ),
    (
        "include and instructions",
        "name: n\nsteps: [{id: a, include: x.yaml, instructions: i}]",
        "include_has_instructions",
    ),
    (
        "include and loop",
        "name: n\nsteps: [{id: a, include: x.yaml, loop: {maxIterations: 1}}]",
        "include_has_loop",
    ),
    ("include and model", "name: n\nsteps: [{id: a, include: x.yaml, model: m}]", "include_has_model"),
    (
        "loop without an end",
        "name: n\nsteps: [{id: a, loop: {until: 'true'}}]",
        "loop_missing_max_iterations",
    ),
    ("unknown agent", "name: n\nagents: {w: {description: d}}\nsteps: [{id: a, agent: x}]", "missing_agent"),
    ("unknown dependency", "name: n\nsteps: [{id: a, dependsOn: [b]}]", "missing_dep"),
    ("two unknown dependencies", "name: n\nsteps: [{id: a, dependsOn: [b, c]}]", "missing_dep"),
    (
        "a loop in a loop",
        "name: n\nsteps: [{id: a, loop: {maxIterations: 2, steps: [{id: b, loop: {maxIterations: 2}}]}}]",
        "nested_loop_prohibited",
    ),
    ("version two", "name: n\nversion: 2\nsteps: [{id: s}]", "unknown_version"),
    (
        "judge that is no agent",
        "name: n\nsteps: [{id: a, loop: {maxIterations: 2, untilAgent: nobody}}]",
        "untilagent_bad_ref",
    ),
    (
        "judge whose done is text",
        "name: n\nagents: {j: {description: d, resultSchema: {type: object, required: [done], properties: {done: {type: string}}}}}\nsteps: [{id: a, loop: {maxIterations: 2, untilAgent: j}}]",
        "validation",
    ),
    (
        "judge that may leave done out",
        "name: n\nagents: {j: {description: d, resultSchema: {type: object, properties: {done: {type: boolean}}}}}\nsteps: [{id: a, loop: {maxIterations: 2, untilAgent: j}}]",
        "validation",
    ),
    (
        "judge without done",
        "name: n\nagents: {j: {description: d, resultSchema: {type: object, required: [done], properties: {other: {type: boolean}}}}}\nsteps: [{id: a, loop: {maxIterations: 2, untilAgent: j}}]",
        "validation",
    ),
    (
        "judge without a schema",
        "name: n\nagents: {j: {description: d}}\nsteps: [{id: a, loop: {maxIterations: 2, untilAgent: j}}]",
        "validation",
    ),
    (
        "inner agent",
        "name: n\nsteps: [{id: a, loop: {maxIterations: 2, steps: [{id: b, agent: x}]}}]",
        "missing_agent",
    ),
    (
        "inner dependency",
        "name: n\nsteps: [{id: o}, {id: a, loop: {maxIterations: 2, steps: [{id: b, dependsOn: [o]}]}}]",
        "missing_dep",
    ),
    (
        "inner cycle",
        "name: n\nsteps: [{id: a, loop: {maxIterations: 2, steps: [{id: b, dependsOn: [b]}]}}]",
        "cycle",
    ),
    (
        "inner duplicate",
        "name: n\nsteps: [{id: a, loop: {maxIterations: 2, steps: [{id: b}, {id: b}]}}]",
        "duplicate_step",
    ),
    ("capital letters", "name: n\nsteps: [{id: Build}]", "invalid_step_id"),
    ("no id", "name: n\nsteps: [{agent: a}]\nagents: {a: {description: d}}", "invalid_step_id"),
    (
        "an id that is too long",
        "name: n\nsteps: [{id: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}]",
        "invalid_step_id",
    ),
    ("agent name", "name: n\nagents: {'../x': {description: d}}\nsteps: [{id: a}]", "validation"),
    ("forEach of a number", "name: n\nsteps: [{id: a, loop: {forEach: 5}}]", "loop_validation"),
    ("an empty loop", "name: n\nsteps: [{id: a, loop: {}}]", "loop_missing_max_iterations"),
    ("duration as a number", "name: n\nsteps: [{id: a, timeout: 30}]", "validation"),
    ("steps that are text", "name: n\nsteps: none", "validation"),
    ("a list", "[1, 2]", "validation"),
    ("nothing", "", "validation"),
    ("only a comment", "# nothing\n", "validation"),
    ("right to left", "name: \"n\\u202ee\"\nsteps: [{id: a}]", "unicode_unsafe"),
    ("a key twice", "name: n\nname: m\nsteps: [{id: a}]", "validation"),
    ("a budget of nothing", "name: n\nsteps: [{id: a}]\nbudget: {maxTokens: 0}", "validation"),
    ("a price without output", "name: n\nsteps: [{id: a}]\nprices: {m: {input: 1}}", "validation"),
    (
        "an output without a name",
        "name: n\nsteps: [{id: a}]\noutputs: {'a b': steps.a.content}",
        "validation",
    ),
];
