//! Which provider is asked and how, and what is made of servers that do not answer as they should. Who answers when
//! one cannot is in `fallbacks.rs`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use tenon_testkit::{Captured, Reply, Run, Server, Tenon, Value, Wire, json, reply};

use super::{IMPATIENT, tenon};

/// Where a wire expects the key.
pub fn key(request: &Captured) -> Option<&str> {
    match request.wire() {
        Wire::Chat | Wire::Responses => request.header("authorization"),
        Wire::Messages => request.header("x-api-key"),
        Wire::Gemini => request.header("x-goog-api-key"),
    }
}

pub fn asked_for(request: &Captured) -> String {
    match request.wire() {
        Wire::Gemini => {
            let after = request.path.split("/models/").nth(1).unwrap_or_default();
            after.split(':').next().unwrap_or_default().to_owned()
        }
        _ => request.body["model"].as_str().unwrap_or_default().to_owned(),
    }
}

pub fn stderr_lines(run: &Run) -> Vec<&str> {
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
