//! Which provider is asked and how, who answers when it cannot, and what is made of servers that do not
//! answer as they should.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use tenon_testkit::{Captured, Reply, Run, Server, Tenon, Value, Wire, json, reply};

use super::tenon;

/// Two attempts, and no wait worth mentioning.
const IMPATIENT: &str = r#"{"retry": {"attempts": 2, "baseMs": 1}}"#;

/// Where a wire expects the key.
fn key(request: &Captured) -> Option<&str> {
    match request.wire() {
        Wire::Chat | Wire::Responses => request.header("authorization"),
        Wire::Messages => request.header("x-api-key"),
        Wire::Gemini => request.header("x-goog-api-key"),
    }
}

fn asked_for(request: &Captured) -> String {
    match request.wire() {
        Wire::Gemini => {
            let after = request.path.split("/models/").nth(1).unwrap_or_default();
            after.split(':').next().unwrap_or_default().to_owned()
        }
        _ => request.body["model"].as_str().unwrap_or_default().to_owned(),
    }
}

fn stderr_lines(run: &Run) -> Vec<&str> {
    run.stderr.lines().collect()
}

mod choice {
    use super::*;

    #[test]
    fn every_provider_is_asked_in_its_own_protocol() {
        for wire in Wire::ALL {
            let server = Server::start([reply().text("Hello.").usage(7, 2)]);
            let run = tenon().server_on(&server, wire).args(["-p", "hi", "-o", "json"]).run();
            run.assert_code(0);
            let request = server.request(0);
            assert_eq!((request.wire(), request.path.as_str()), (wire, wire.path().as_str()));
            let expected = match wire {
                Wire::Chat | Wire::Responses => "Bearer test-key",
                Wire::Messages | Wire::Gemini => "test-key",
            };
            assert_eq!(key(&request), Some(expected), "{wire:?}");
            assert_eq!(asked_for(&request), "test-model");
            let output = run.json();
            let result = output.as_array().and_then(|lines| lines.last()).unwrap();
            assert_eq!((&result["result"], &result["usage"]["input_tokens"]), (&json!("Hello."), &json!(7)));
            assert_eq!(result["total_cost_usd"], 0.0, "a server on this machine");
            assert_eq!(run.stderr, "", "the model was named: {run}");
        }
    }

    #[test]
    fn the_first_with_credentials_is_asked() {
        let on = |run: Tenon, server: &Server, wires: &[Wire]| {
            wires
                .iter()
                .flat_map(|wire| wire.env(server))
                .fold(run, |run, (name, value)| run.env(name, value))
        };
        let (chat, messages, gemini) = (Wire::Chat, Wire::Messages, Wire::Gemini);
        for (set, asked) in [
            (&[gemini][..], gemini),
            (&[messages], messages),
            (&[gemini, messages], messages),
            (&[gemini, messages, chat], chat),
        ] {
            let server = Server::start([reply().text("Hello.")]);
            let run = on(tenon(), &server, set).args(["-p", "hi"]).run();
            run.assert_code(0);
            assert_eq!(server.request(0).wire(), asked, "{set:?}");
            let names: Vec<String> = [chat, messages, gemini]
                .iter()
                .filter(|wire| set.contains(wire))
                .map(|wire| format!("`{}`", wire.provider()))
                .collect();
            let several = format!(
                "warning: credentials for {} are set; `{}` is used",
                names.join(", "),
                asked.provider()
            );
            let told = stderr_lines(&run).iter().filter(|line| **line == several).count();
            assert_eq!(told, usize::from(set.len() > 1), "{run}");
            assert!(run.stderr.contains(&format!("model `{}/test-model`: ", asked.provider())), "{run}");
        }
    }

    #[test]
    fn the_auth_type_names_the_provider() {
        for (auth_type, wire) in
            [("openai", Wire::Chat), ("anthropic", Wire::Messages), ("gemini", Wire::Gemini)]
        {
            let server = Server::start([reply().text("Hello.")]);
            let run = Wire::ALL
                .iter()
                .flat_map(|wire| wire.env(&server))
                .fold(tenon(), |run, (name, value)| run.env(name, value))
                .args(["-p", "hi", "--auth-type", auth_type, "-m", "mine"])
                .run();
            run.assert_code(0);
            assert_eq!((server.request(0).wire(), asked_for(&server.request(0))), (wire, "mine".to_owned()));
        }
    }

    #[test]
    fn a_version_in_the_base_url_is_tolerated() {
        for (variable, after, model, path) in [
            ("OPENAI_BASE_URL", "/v1", "openai/m", "/v1/chat/completions"),
            ("OPENAI_BASE_URL", "/v1/", "openai-responses/m", "/v1/responses"),
            ("ANTHROPIC_BASE_URL", "", "anthropic/m", "/v1/messages"),
            ("ANTHROPIC_BASE_URL", "/", "anthropic/m", "/v1/messages"),
            ("ANTHROPIC_BASE_URL", "/v1", "anthropic/m", "/v1/messages"),
            ("ANTHROPIC_BASE_URL", "/gateway/v1/", "anthropic/m", "/gateway/v1/messages"),
            ("GOOGLE_GEMINI_BASE_URL", "", "gemini/m", "/v1beta/models/m:streamGenerateContent?alt=sse"),
            (
                "GOOGLE_GEMINI_BASE_URL",
                "/v1beta/",
                "gemini/m",
                "/v1beta/models/m:streamGenerateContent?alt=sse",
            ),
            ("GOOGLE_GEMINI_BASE_URL", "/v1", "gemini/m", "/v1/models/m:streamGenerateContent?alt=sse"),
        ] {
            let server = Server::start([reply().text("Hello.")]);
            let url = format!("{}{after}", server.origin());
            // A server on this machine needs no key.
            let run = tenon().env(variable, url).args(["-m", model, "-p", "hi"]).run();
            run.assert_code(0);
            assert_eq!((server.request(0).path.as_str(), key(&server.request(0))), (path, None), "{model}");
        }
    }

    #[test]
    fn a_provider_of_the_settings_may_speak_any_protocol() {
        for wire in Wire::ALL {
            let server = Server::start([reply().text("Hello.")]);
            let base_url = match wire {
                Wire::Chat | Wire::Responses => server.base_url(),
                Wire::Messages | Wire::Gemini => server.origin(),
            };
            let settings = json!({
                "model": "lab/big",
                "providers": {"lab": {
                    "wire": wire.provider(), "baseUrl": base_url, "apiKeyEnv": "LAB_KEY", "headers": {"x-team": "blue"},
                }},
            });
            let run =
                tenon().home_file("settings.json", settings.to_string()).env("LAB_KEY", "lab-secret-key");
            let run = run.args(["-p", "hi"]).run();
            run.assert_code(0);
            let request = server.request(0);
            assert_eq!((request.wire(), asked_for(&request).as_str()), (wire, "big"));
            assert!(
                key(&request).is_some_and(|key| key.ends_with("lab-secret-key")),
                "{:?}",
                request.headers
            );
            assert_eq!(request.header("x-team"), Some("blue"));
        }
    }
}

mod fallback {
    use super::*;

    /// `openai/first` on one server, and whatever the test adds.
    fn first(server: &Server) -> Tenon {
        tenon().server(server).args(["-m", "openai/first", "-p", "go", "--settings", IMPATIENT])
    }

    /// Another provider on another server, with a key of its own.
    fn with(run: Tenon, wire: Wire, server: &Server, key: &str) -> Tenon {
        let run = wire.env(server).into_iter().fold(run, |run, (name, value)| run.env(name, value));
        match wire {
            Wire::Messages => run.env("ANTHROPIC_API_KEY", key),
            _ => run.env("GEMINI_API_KEY", key),
        }
    }

    fn failed(run: &Run) -> (i32, String, Value) {
        let error = &run.last_json()["error"];
        (run.code, error["class"].as_str().unwrap_or_default().to_owned(), error["http_status"].clone())
    }

    #[test]
    fn another_provider_takes_over_and_stays() {
        let busy = Server::start([reply().status(429).repeat(2)]);
        let other = Server::start([
            reply().call("call_1", "read_file", json!({"file_path": "a.txt"})).usage(10, 1),
            reply().text("It says hello.").usage(20, 2),
        ]);
        let run = with(first(&busy), Wire::Messages, &other, "other-key")
            .file("a.txt", "hello")
            .args(["--fallback-model", "anthropic/second", "-o", "stream-json"])
            .run();
        run.assert_code(0);
        busy.assert_script_done();
        other.assert_script_done();
        assert!(busy.requests().iter().all(|request| asked_for(request) == "first"));
        for request in other.requests() {
            assert_eq!((asked_for(&request).as_str(), key(&request)), ("second", Some("other-key")));
        }
        let lines = run.json_lines();
        let fallback: Vec<&Value> = lines.iter().filter(|line| line["subtype"] == "model_fallback").collect();
        assert_eq!(fallback.len(), 1, "{run}");
        assert_eq!(fallback[0]["type"], "system");
        assert_eq!(
            fallback[0]["data"],
            json!({"fromModel": "first", "toModel": "second", "statusCode": 429, "fallbackIndex": 1})
        );
        let models: Vec<&Value> = lines
            .iter()
            .filter(|line| line["type"] == "assistant")
            .map(|line| &line["message"]["model"])
            .collect();
        assert_eq!(models, ["second", "second"]);
        let result = run.last_json();
        assert_eq!(result["result"], "It says hello.");
        assert_eq!(result["usage"]["input_tokens"], 30);
        let told = "fallback: `first` cannot answer now (answered 429); `second` is asked from here on";
        assert_eq!(stderr_lines(&run).iter().filter(|line| **line == told).count(), 1, "{run}");
        // The statistics name who did what.
        let busy = Server::start([reply().status(429).repeat(2)]);
        let other = Server::start([reply().text("Hello.").usage(20, 2)]);
        let run = with(first(&busy), Wire::Gemini, &other, "k")
            .args(["--fallback-model", "gemini/second", "-o", "json"])
            .run();
        run.assert_code(0);
        let output = run.json();
        let models = &output.as_array().and_then(|lines| lines.last()).unwrap()["stats"]["models"];
        let counts =
            |name: &str| (&models[name]["api"]["totalRequests"], &models[name]["api"]["totalErrors"]);
        assert_eq!(counts("first"), (&json!(2), &json!(2)));
        assert_eq!(counts("second"), (&json!(1), &json!(0)));
        assert_eq!(models["second"]["tokens"]["prompt"], 20);
    }

    #[test]
    fn the_chain_is_asked_in_its_order() {
        let chat = Server::start([
            reply().status(503).when(|body| body["model"] == "first").forever(),
            reply().status(529).when(|body| body["model"] == "second").forever(),
            reply().text("Hello from the fourth.").when(|body| body["model"] == "fourth"),
        ]);
        let gemini = Server::start([reply().status(429).forever()]);
        // A bare name belongs to the provider of the first.
        let run = with(first(&chat), Wire::Gemini, &gemini, "k")
            .args(["--fallback-model", "second", "--fallback-model", "gemini/third,fourth", "-q"])
            .run();
        run.assert_code(0);
        assert_eq!(run.stdout, "Hello from the fourth.\n");
        let asked: Vec<String> = chat.requests().iter().map(asked_for).collect();
        assert_eq!(asked, ["first", "first", "second", "second", "fourth"]);
        assert_eq!(gemini.requests().iter().map(asked_for).collect::<Vec<_>>(), ["third", "third"]);
    }

    #[test]
    fn when_all_are_busy_the_first_is_the_reason() {
        let busy = Server::start([reply().status(429).forever()]);
        let other = Server::start([reply().status(529).forever()]);
        let run = with(first(&busy), Wire::Messages, &other, "k")
            .args(["--fallback-model", "anthropic/second", "-o", "stream-json", "-q"])
            .run();
        assert_eq!(failed(&run), (1, "rate_limited".to_owned(), json!(429)), "{run}");
        assert!(run.stderr.contains("`openai` answered 429"), "{run}");
        assert!(run.stderr.contains("the fallback `second` failed too: `anthropic` answered 529"), "{run}");
        // A fallback with a wrong key ends it in the same way.
        let other = Server::start([reply().status(401).forever(), reply().text("never")]);
        let run = with(first(&busy), Wire::Messages, &other, "k")
            .args(["--fallback-model", "anthropic/second,anthropic/third", "-o", "stream-json", "-q"])
            .run();
        assert_eq!(failed(&run), (1, "rate_limited".to_owned(), json!(429)), "{run}");
        assert_eq!(other.requests().len(), 1);
    }

    #[test]
    fn other_failures_are_not_for_others_to_solve() {
        for (status, code, class) in [
            (401, 41, "auth"),
            (403, 41, "auth"),
            (400, 1, "protocol"),
            (404, 1, "protocol"),
            (500, 1, "protocol"),
        ] {
            let server = Server::start([reply().status(status).forever()]);
            let other = Server::start([reply().text("never").forever()]);
            let run = with(first(&server), Wire::Messages, &other, "k")
                .args(["--fallback-model", "anthropic/second", "-o", "stream-json"])
                .run();
            assert_eq!(failed(&run), (code, class.to_owned(), json!(status)), "{run}");
            assert!(other.requests().is_empty(), "{status}");
        }
    }

    #[test]
    fn a_wait_that_is_too_long_is_not_waited_for() {
        let busy = Server::start([reply().status(429).header("retry-after", "3600").forever()]);
        let other = Server::start([reply().text("Hello.")]);
        let run = with(first(&busy), Wire::Messages, &other, "k")
            .args(["--fallback-model", "anthropic/second"])
            .run();
        run.assert_code(0);
        assert_eq!((run.stdout.as_str(), busy.requests().len()), ("Hello.\n", 1));
    }

    #[test]
    fn an_answer_that_was_shown_is_not_asked_for_again() {
        let overloaded = json!({"message": "busy", "type": "overloaded_error"});
        let breaking = || reply().text("Half an").error_event(overloaded.clone()).forever();
        for (format, code) in [("text", 0), ("json", 0), ("stream-json", 1)] {
            let server = Server::start([breaking()]);
            let other = Server::start([reply().text("Whole.")]);
            let run = with(first(&server), Wire::Messages, &other, "k")
                .args(["--fallback-model", "anthropic/second", "-o", format])
                .run();
            run.assert_code(code);
            assert_eq!(other.requests().len(), usize::from(code == 0), "{run}");
            assert_eq!(run.stdout.contains("Half an"), code != 0, "{run}");
        }
    }

    #[test]
    fn a_recorded_fallback_is_replayed() {
        let busy = Server::start([reply().status(429).repeat(2)]);
        let other = Server::start([
            reply().call("call_1", "read_file", json!({"file_path": "a.txt"})),
            reply().text("It says hello."),
        ]);
        let recorded = with(first(&busy), Wire::Messages, &other, "other-secret-key")
            .file("a.txt", "hello")
            .args(["--fallback-model", "anthropic/second", "--record", "run.jsonl"])
            .run();
        recorded.assert_code(0);
        let cassette = recorded.read("run.jsonl");
        assert!(!cassette.contains("other-secret-key") && !cassette.contains("test-key"), "{cassette}");
        let replayed = tenon()
            .file("a.txt", "hello")
            .file("run.jsonl", &cassette)
            .args(["-m", "openai/first", "-p", "go", "--settings", IMPATIENT, "--replay", "run.jsonl"])
            .args(["--fallback-model", "anthropic/second"])
            .run();
        replayed.assert_code(0);
        assert_eq!(replayed.stdout, recorded.stdout);
    }

    #[test]
    fn a_fallback_that_cannot_be_asked_is_refused_at_once() {
        let server = Server::start([]);
        let run = first(&server).args(["--fallback-model", "gemini/g"]).run();
        run.assert_code(41);
        assert!(
            run.stderr.starts_with(
                "error[auth]: `--fallback-model gemini/g`: no key for `gemini`: `GEMINI_API_KEY` is not set\nhint: "
            ),
            "{run}"
        );
        assert!(server.requests().is_empty());
    }
}

mod schema_mode {
    use super::*;

    const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"type":"integer","minimum":1}},"required":["n"],"additionalProperties":false}"#;
    /// The wires that have a response format.
    const WIRES: [Wire; 3] = [Wire::Chat, Wire::Responses, Wire::Gemini];

    fn asked(server: &Server, wire: Wire, mode: &str) -> Tenon {
        tenon().server_on(server, wire).args([
            "-p",
            "count",
            "--json-schema",
            SCHEMA,
            "--schema-mode",
            mode,
            "--settings",
            IMPATIENT,
        ])
    }

    fn format_schema(request: &Captured) -> Value {
        let body = &request.body;
        match request.wire() {
            Wire::Chat => {
                assert_eq!(body["response_format"]["type"], "json_schema", "{body}");
                assert_eq!(body["response_format"]["json_schema"]["name"], "structured_output");
                body["response_format"]["json_schema"]["schema"].clone()
            }
            Wire::Responses => {
                assert_eq!(body["text"]["format"]["type"], "json_schema", "{body}");
                assert_eq!(body["text"]["format"]["name"], "structured_output");
                body["text"]["format"]["schema"].clone()
            }
            Wire::Gemini => {
                assert_eq!(body["generationConfig"]["responseMimeType"], "application/json");
                body["generationConfig"]["responseJsonSchema"].clone()
            }
            Wire::Messages => panic!("no response format"),
        }
    }

    fn has_format(request: &Captured) -> bool {
        ["/response_format", "/text/format", "/generationConfig/responseJsonSchema"]
            .iter()
            .any(|place| request.body.pointer(place).is_some())
    }

    #[test]
    fn the_text_is_the_payload() {
        for wire in WIRES {
            let server = Server::start([
                reply().text_chunks(["{\"n\"", ": 0}"]),
                reply().text_chunks(["  {\"n\":", " 10", "0e-2}\n"]),
                reply().text("{\"n\": 100}"),
            ]);
            let run = asked(&server, wire, "response-format").args(["-o", "stream-json"]).run();
            run.assert_code(0);
            let result = run.last_json();
            assert!(run.stdout.contains(r#""structured_result":{"n":100e-2}"#), "{run}");
            assert_eq!(result["num_turns"], 2);
            let request = server.request(0);
            assert_eq!(format_schema(&request)["properties"]["n"]["type"], "integer", "{wire:?}");
            assert!(!request.tool_names().contains(&"structured_output"), "{wire:?}");
            assert!(request.tool_names().contains(&"read_file"), "other tools stay: {wire:?}");
            assert_eq!(request.forced_tool(), None);
            assert!(request.system_text().contains(r#""minimum":1"#), "the model reads the schema");
            assert!(!request.system_text().contains("structured_output"));
            // What was rejected goes back as what it was: text, and what is wrong with it.
            let request = server.request(1);
            assert!(request.user_text().contains("/n: "), "{}", request.body);
            assert!(request.body.to_string().contains(r#"{\"n\": 0}"#), "{}", request.body);
            assert!(
                !request.body.to_string().contains("structured_output\",\"arguments"),
                "{}",
                request.body
            );
            // On the way out it is the same call as with a tool.
            let lines = run.json_lines();
            let calls: Vec<&Value> = lines
                .iter()
                .filter(|line| line["type"] == "assistant")
                .map(|line| &line["message"]["content"][0])
                .collect();
            assert_eq!(calls.len(), 2);
            assert!(
                calls.iter().all(|call| call["type"] == "tool_use" && call["name"] == "structured_output")
            );
        }
    }

    #[test]
    fn fences_are_taken_off() {
        for text in [
            "```json\n{\"n\": 1}\n```",
            "```json\n{\"n\": 1}\n```\n",
            "```\n{\"n\": 1}```",
            "\n```JSON {\"n\": 1} ```",
            "```json\n{\n  \"n\": 1\n}\n```\nThat is all.",
            "{\"n\": 1}",
        ] {
            for by in [1, 3, 1000] {
                let pieces: Vec<String> = text
                    .as_bytes()
                    .chunks(by)
                    .map(|piece| String::from_utf8_lossy(piece).into_owned())
                    .collect();
                let server = Server::start([reply().text_chunks(pieces)]);
                let run = asked(&server, Wire::Chat, "response-format").run();
                run.assert_code(0);
                assert_eq!(run.stdout, "{\"n\":1}\n", "{text:?} by {by}");
            }
        }
    }

    #[test]
    fn other_tools_can_be_called_first() {
        for wire in WIRES {
            let server = Server::start([
                reply().text("Let me look.").call("call_1", "read_file", json!({"file_path": "a.txt"})),
                reply().text("{\"n\": 5}"),
            ]);
            let run = asked(&server, wire, "response-format").file("a.txt", "five").run();
            run.assert_code(0);
            assert_eq!(run.stdout, "{\"n\":5}\n", "{wire:?}");
            let request = server.request(1);
            assert!(request.tool_result("call_1").contains("five"));
            assert!(request.body.to_string().contains("Let me look."));
        }
    }

    #[test]
    fn what_is_no_json_is_a_bad_answer() {
        let server = Server::start([reply().text("I would say five.").forever()]);
        let run = asked(&server, Wire::Chat, "response-format")
            .args(["--max-schema-retries", "1", "-o", "json"])
            .run();
        run.assert_code(53);
        let output = run.json();
        let result = output.as_array().and_then(|lines| lines.last()).unwrap();
        assert_eq!(result["error"]["class"], "schema_retries");
        assert_eq!(result["structured_error"]["attempts"], 2);
        assert_eq!(result["structured_error"]["candidate"], "I would say five.");
        // Nothing at all is no answer, and a reminder says what is missing.
        let server = Server::start([reply(), reply().text("{\"n\": 2}")]);
        let run = asked(&server, Wire::Chat, "response-format").args(["--schema-nudge", "1"]).run();
        run.assert_code(0);
        assert_eq!(server.request(1).tool_names(), [""; 0]);
        assert!(server.request(1).user_text().contains("Write the final answer now"));
        let server = Server::start([reply()]);
        let run = asked(&server, Wire::Chat, "response-format").run();
        run.assert_code(1);
        assert!(
            run.stderr.contains("error[contract]: the model stopped after 1 turn without writing an answer"),
            "{run}"
        );
        // A refusal stays one.
        let server = Server::start([reply().text("I will not.").finish("content_filter")]);
        let run = asked(&server, Wire::Chat, "response-format").run();
        run.assert_code(1);
        assert!(run.stderr.starts_with("error[refused]: ") && run.stderr.contains("I will not."), "{run}");
    }

    #[test]
    fn partial_payloads_grow_as_with_a_tool() {
        let server = Server::start([reply().text_chunks(["{\"n\":", " 1", "2}"])]);
        let run = asked(&server, Wire::Chat, "response-format")
            .args(["-o", "stream-json", "--include-partial-messages"])
            .run();
        run.assert_code(0);
        let lines = run.json_lines();
        let events: Vec<&Value> =
            lines.iter().filter(|line| line["type"] == "stream_event").map(|line| &line["event"]).collect();
        let arguments: String =
            events.iter().filter_map(|event| event["delta"]["partial_json"].as_str()).collect();
        assert_eq!(arguments, "{\"n\": 12}");
        assert!(events.iter().any(|event| event["content_block"]["name"] == "structured_output"));
    }

    #[test]
    fn auto_changes_over_when_a_forced_call_is_answered_with_text() {
        for wire in WIRES {
            let server =
                Server::start([reply().text("It is 3."), reply().text("Three!"), reply().text("{\"n\": 3}")]);
            let run = asked(&server, wire, "auto").run();
            run.assert_code(0);
            assert_eq!(run.stdout, "{\"n\":3}\n");
            let [first, forced, formatted] = [0, 1, 2].map(|number| server.request(number));
            assert!(first.tool_names().contains(&"structured_output") && !has_format(&first));
            assert_eq!(forced.forced_tool().as_deref(), Some("structured_output"));
            assert_eq!(format_schema(&formatted)["required"], json!(["n"]));
            assert_eq!((formatted.forced_tool(), formatted.tool_names()), (None, vec![]));
            let told = "warning: the model answered a forced call of `structured_output` with text; \
                        from here on its text is asked for in the form of the schema (`--schema-mode auto`)";
            assert_eq!(stderr_lines(&run).iter().filter(|line| **line == told).count(), 1, "{run}");
        }
        // Rejected calls of before go on as text.
        let server = Server::start([
            reply().call("call_1", "structured_output", json!({"n": 0})),
            reply().text("It is 3."),
            reply().text("Three!"),
            reply().text("{\"n\": 3}"),
        ]);
        asked(&server, Wire::Chat, "auto").run().assert_code(0);
        let last = server.request(3);
        assert!(
            last.messages()
                .iter()
                .all(|message| message.get("tool_calls").is_none() && message["role"] != "tool")
        );
        assert!(last.user_text().contains("/n: "));
    }

    #[test]
    fn auto_stays_with_the_tool_where_it_is_called() {
        let call = || reply().call("call_1", "structured_output", json!({"n": 3}));
        for (script, requests) in [(vec![call()], 1), (vec![reply().text("It is 3."), call()], 2)] {
            let server = Server::start(script);
            let run = asked(&server, Wire::Chat, "auto").run();
            run.assert_code(0);
            assert_eq!(server.requests().len(), requests);
            assert!(!server.requests().iter().any(has_format));
            assert!(!run.stderr.contains("--schema-mode"), "{run}");
        }
        // The default never changes over, and never forces by itself.
        let server = Server::start([reply().text("It is 3.")]);
        asked(&server, Wire::Chat, "tool").run().assert_code(1);
        assert_eq!(server.requests().len(), 1);
    }

    #[test]
    fn a_protocol_without_a_response_format_says_so() {
        for mode in ["response-format", "auto"] {
            let server = Server::start([]);
            let run = asked(&server, Wire::Messages, mode).run();
            run.assert_code(52);
            assert!(
                run.stderr.contains(
                    "error[config]: `--schema-mode` asks for a response format, which the `anthropic` protocol does not have\nhint: "
                ),
                "{run}"
            );
        }
        let server = Server::start([reply().call("call_1", "structured_output", json!({"n": 3}))]);
        asked(&server, Wire::Messages, "tool").run().assert_code(0);
    }

    #[test]
    fn a_recorded_answer_is_replayed() {
        for wire in WIRES {
            let server = Server::start([reply().text("{\"n\": 0}"), reply().text("{\"n\": 7}")]);
            let recorded = asked(&server, wire, "response-format").args(["--record", "run.jsonl"]).run();
            recorded.assert_code(0);
            let replayed = tenon()
                .file("run.jsonl", recorded.read("run.jsonl"))
                .args(["-p", "count", "--json-schema", SCHEMA, "--schema-mode", "response-format"])
                .args(["--replay", "run.jsonl"])
                .run();
            replayed.assert_code(0);
            assert_eq!(replayed.stdout, "{\"n\":7}\n", "{wire:?}");
        }
    }

    #[test]
    fn the_payload_is_not_kept_anywhere() {
        let server = Server::start([reply().text("{\"n\": 0}"), reply().text("{\"n\": 424242}")]);
        let run = asked(&server, Wire::Chat, "response-format").args(["--verbose"]).run();
        run.assert_code(0);
        assert_eq!(run.stdout, "{\"n\":424242}\n");
        assert!(!run.stderr.contains("424242"), "{run}");
    }
}

mod no_answers {
    use super::*;

    fn fails(wire: Wire, answer: Reply, message: &str, requests: usize) {
        let server = Server::start([answer.forever()]);
        let run = tenon().server_on(&server, wire).args(["-p", "go", "-q", "--settings", IMPATIENT]).run();
        run.assert_code(1);
        assert!(run.stderr.starts_with(message), "{wire:?}: {message}\n{run}");
        assert_eq!((run.stdout.as_str(), server.requests().len()), ("", requests), "{wire:?}");
    }

    #[test]
    fn a_success_that_is_none_is_told_as_it_is() {
        let plain = "error[protocol]: the server answered 200 with something that is not an answer: `It works!`\nhint: ";
        let empty = "error[protocol]: the server answered 200 with an empty body (after 2 attempts)\n";
        for wire in Wire::ALL {
            fails(wire, reply().text_body("It works!"), plain, 1);
            fails(wire, reply().raw_body("application/octet-stream", "It works!"), plain, 1);
            fails(wire, reply().raw_body("text/event-stream", ""), empty, 2);
            fails(wire, reply().raw_body("application/json", ""), empty, 2);
            fails(
                wire,
                reply().raw_body("text/html", "<html>hello</html>"),
                "error[protocol]: `http://127.0.0.1:",
                1,
            );
        }
    }
}

mod connections {
    use super::*;

    /// What the server does with the connection between two turns.
    #[derive(Clone, Copy, Debug)]
    enum Between {
        /// Closes it while nobody uses it.
        Closes,
        /// Has closed it by the time the next request is on its way.
        Resets,
    }

    /// A connection that was kept for the next turn may be gone by then.
    #[test]
    fn a_connection_that_was_closed_between_turns_is_replaced() {
        for between in [Between::Closes, Between::Resets] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}/v1", listener.local_addr().unwrap());
            let server = std::thread::spawn(move || {
                let (mut kept, _) = listener.accept().unwrap();
                read_request(&kept);
                let call = json!({"index": 0, "id": "call_1", "function": {"name": "run_shell_command", "arguments": "{\"command\":\"sleep 0.3\"}"}});
                answer(&mut kept, &json!({"tool_calls": [call]}));
                if let Between::Resets = between {
                    // The next request comes on it, and gets no answer.
                    read_request(&kept);
                }
                drop(kept);
                let (mut fresh, _) = listener.accept().unwrap();
                let request = read_request(&fresh);
                answer(&mut fresh, &json!({"content": "Done."}));
                request
            });
            let run = tenon()
                .env("OPENAI_BASE_URL", url)
                .args(["-m", "m", "-p", "go", "--yolo", "--settings", IMPATIENT])
                .run();
            run.assert_code(0);
            assert_eq!(run.stdout, "Done.\n", "{between:?}");
            assert!(server.join().unwrap().contains("call_1"), "the turn was asked for again: {between:?}");
        }
    }

    fn read_request(stream: &TcpStream) -> String {
        let mut reader = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert_ne!(reader.read_line(&mut line).unwrap(), 0, "the client closed the connection");
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }

    /// A whole answer on a connection that stays open.
    fn answer(stream: &mut TcpStream, delta: &Value) {
        let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]});
        let body = format!("data: {chunk}\n\ndata: [DONE]\n\n");
        let length = body.len();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    }
}
