//! `@path` in what was typed: files, folders and images go to the model with it; secrets, what is ignored and what lies
//! outside do not.

use std::fs;

use tenon_testkit::{Server, json, reply};

use super::commands::{asked, driven, is, user};
use super::tenon;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n0000IHDR";

#[test]
fn what_is_named_goes_to_the_model_and_what_must_not_does_not() {
    let server = Server::start((0..9).map(|_| reply().text("Done.")));
    let base = tenon()
        .server(&server)
        .file("main.py", "print('hi')\n")
        .file("src/a b.txt", "spaced\n")
        .file("src/lib.rs", "pub fn f() {}\n")
        .file("long.txt", (1..=3000).map(|n| format!("line {n}\n")).collect::<String>())
        .file(".env", "SECRET=1")
        .file("config/prod.pem", "SECRET=2")
        .file(".gitignore", "out/\n")
        .file("out/log.txt", "SECRET=3")
        .file("blob.bin", b"\0\0SECRET=4");
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("x.txt"), "SECRET=5").unwrap();
    std::os::unix::fs::symlink(outside.path().join("x.txt"), base.workspace().join("link.txt")).unwrap();
    let file = |name: &str, text: &str| format!("\n\n[The file `{name}`:]\n{text}\n[End of `{name}`]");
    let table = [
        ("fix the bug in @main.py.", file("main.py", "print('hi')")),
        ("@main.py what is it, @main.py?", file("main.py", "print('hi')")),
        ("see @\"src/a b.txt\" and @src/a\\ b.txt", file("src/a b.txt", "spaced")),
        ("in @src", "\n\n[The folder `src`:]\nIn `src`:\na b.txt\nlib.rs\n[End of `src`]".to_owned()),
        ("mail me@main.py `@main.py`", String::new()),
    ];
    for (number, (text, more)) in table.iter().enumerate() {
        let run = base.clone().args(["-p", text]).run();
        assert_eq!(run.code, 0, "{run}");
        assert_eq!(asked(&server, number), format!("{text}{more}"));
    }
    let at = table.len();
    let run = base.clone().args(["-p", "@long.txt"]).run();
    assert_eq!(run.code, 0, "{run}");
    let long = asked(&server, at);
    assert!(long.contains("Showing lines 1-1000 of 3000 total lines."), "{}", &long[..200]);
    assert!(long.contains("line 1000\n") && !long.contains("line 1001"));
    let refused = "@.env @config/prod.pem @out/log.txt @link.txt @blob.bin @../x @/etc/hostname @nobody.txt";
    let run = base.clone().args(["-p", refused, "-o", "json"]).run();
    assert_eq!(run.code, 0, "{run}");
    assert_eq!(asked(&server, at + 1), refused, "left as it is");
    let result = run.last_json();
    let warnings = result.as_array().unwrap().last().unwrap()["warnings"].to_string();
    for path in refused.split(' ') {
        assert!(warnings.contains(&format!("`{path}`")), "{path}: {warnings}");
    }
    assert!(warnings.contains("names no file here"), "{warnings}");
    let run = base.args(["-p", "@main.py", "--literal-prompt"]).run();
    assert_eq!((run.code, asked(&server, at + 2).as_str()), (0, "@main.py"), "{run}");
}

#[test]
fn folders_that_were_added_are_in_reach_and_rules_hide() {
    let server = Server::start([reply().text("Done."), reply().text("Done.")]);
    let more = tempfile::tempdir().unwrap();
    fs::write(more.path().join("x.txt"), "from afar\n").unwrap();
    let base = tenon().server(&server).file("private/a.txt", "hidden");
    let path = more.path().join("x.txt").display().to_string();
    let run = base.clone().args(["-p", &format!("@{path}"), "--add-dir"]).arg(more.path()).run();
    assert_eq!(run.code, 0, "{run}");
    assert!(asked(&server, 0).contains("from afar"));
    let run = base.args(["-p", "@private/a.txt", "--exclude-tools", "Read(private/**)"]).run();
    assert_eq!((run.code, asked(&server, 1).as_str()), (0, "@private/a.txt"), "{run}");
}

#[test]
fn clients_name_files_in_words_and_as_parts_and_images_are_shown() {
    let server = Server::start((0..4).map(|_| reply().text("Done.")));
    let base = tenon().server(&server).file("a.txt", "alpha\n").file("pic.png", PNG);
    let mut client = driven(base, &[]);
    client.write_json(&user("look at @a.txt"));
    client.json_where(is("result"));
    assert_eq!(asked(&server, 0), "look at @a.txt\n\n[The file `a.txt`:]\nalpha\n[End of `a.txt`]");
    client.write_json(&user("@pic.png what is it"));
    let told = client.json_where(|line| line["subtype"] == "command_result")["data"].clone();
    assert_eq!(told["command"], json!({"kind": "at", "path": ["pic.png"], "args": "what is it"}));
    assert_eq!(told["result"]["type"], "submit_prompt");
    client.json_where(is("result"));
    let parts = server.request(1).messages().last().unwrap()["content"].clone();
    assert!(parts.to_string().contains("data:image/png;base64,"), "{parts}");
    client.write_json(&json!({"input": {"origin": "user", "parts": [
        {"type": "text", "text": "this:"}, {"type": "file_data", "file_uri": "a.txt"},
    ]}}));
    client.json_where(is("result"));
    assert!(asked(&server, 2).contains("alpha"), "{}", asked(&server, 2));
    client.write_json(&json!({"input": {"origin": "user", "parts": [
        {"type": "text", "text": "this:"}, {"type": "file_data", "file_uri": "/etc/hostname"},
    ]}}));
    let result = client.json_where(is("result"));
    assert_eq!((&result["is_error"], &result["error"]["class"]), (&json!(true), &json!("input")), "{result}");
    client.close_stdin();
    assert_eq!(client.wait().code, 0);
}

/// A name is one line of a listing, whatever stands in it.
#[test]
fn a_line_feed_in_a_name_does_not_look_like_another_name() {
    let server = Server::start([reply().text("Done.")]);
    let run =
        tenon().server(&server).file("src/a\n[DIR] b.txt", "x").file("src/c", "y").args(["-p", "@src"]).run();
    run.assert_code(0);
    assert_eq!(
        asked(&server, 0),
        "@src\n\n[The folder `src`:]\nIn `src`:\na\\n[DIR] b.txt\nc\n[End of `src`]"
    );
}
