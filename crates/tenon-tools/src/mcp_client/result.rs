//! What a server answered, as the model gets it: text with a cap, images as images, and a line for what
//! cannot be shown. Read leniently: a block nobody knows is named and does not spoil the rest.

use serde_json::Value;
use tenon_core::{Media, ToolErrorKind, ToolOutcome};

use crate::OutputStore;
use crate::media::{self, MAX_PER_RESULT};
use crate::output::{GENERIC, cap, first_chars};

/// What the model is told of a name or an address that a server made up.
const MAX_LABEL: usize = 300;

/// The outcome of a call: `content`, `structuredContent` and `isError`.
pub(super) fn outcome(result: &Value, tool: &str, store: &OutputStore) -> ToolOutcome {
    if result["resultType"] == "input_required" {
        let told = "The server asks for input before it goes on, and nobody is there to give it.";
        return ToolOutcome::error(ToolErrorKind::Failed, told);
    }
    let mut shown = Shown::default();
    for block in result["content"].as_array().into_iter().flatten() {
        shown.block(block);
    }
    shown.structured(&result["structuredContent"]);
    let failed = result["isError"] == true;
    if shown.text.trim().is_empty() && shown.media.is_empty() {
        shown.text = if failed { "The tool failed without saying why." } else { "(no output)" }.to_owned();
    }
    ToolOutcome {
        content: cap(store, tool, shown.text, GENERIC),
        media: shown.media,
        error: failed.then_some(ToolErrorKind::Failed),
        ..ToolOutcome::default()
    }
}

/// The contents of a resource, or a list of resources.
pub(super) fn resource(result: &Value, tool: &str, store: &OutputStore) -> ToolOutcome {
    let mut shown = Shown::default();
    for contents in result["contents"].as_array().into_iter().flatten() {
        shown.contents(contents);
    }
    for link in result["resources"].as_array().into_iter().flatten() {
        shown.link(link);
    }
    if shown.text.is_empty() && shown.media.is_empty() {
        shown.text = "(nothing)".to_owned();
    }
    let content = cap(store, tool, shown.text, GENERIC);
    ToolOutcome { content, media: shown.media, ..ToolOutcome::default() }
}

#[derive(Default)]
struct Shown {
    text: String,
    media: Vec<Media>,
}

impl Shown {
    fn block(&mut self, block: &Value) {
        match block["type"].as_str() {
            Some("text") => self.line(block["text"].as_str().unwrap_or_default()),
            Some("image" | "audio") => {
                let mime = block["mimeType"].as_str().unwrap_or_default();
                self.medium(mime, block["data"].as_str().unwrap_or_default());
            }
            Some("resource") => self.contents(&block["resource"]),
            Some("resource_link") => self.link(block),
            kind => {
                self.line(&format!("[a block of the type `{}`, not shown]", label(kind.unwrap_or("unknown"))))
            }
        }
    }

    fn contents(&mut self, contents: &Value) {
        let uri = label(contents["uri"].as_str().unwrap_or_default());
        if let Some(text) = contents["text"].as_str() {
            self.line(&format!("{uri}:\n{text}"));
            return;
        }
        let mime = contents["mimeType"].as_str().unwrap_or_default();
        let blob = contents["blob"].as_str().unwrap_or_default();
        if mime.starts_with("image/") || mime.starts_with("audio/") || mime == "application/pdf" {
            self.line(&format!("{uri}:"));
            self.medium(mime, blob);
        } else {
            let bytes = blob.len() / 4 * 3;
            self.line(&format!("[{uri}: {} of about {bytes} bytes, not shown]", label(mime)));
        }
    }

    fn link(&mut self, link: &Value) {
        let uri = label(link["uri"].as_str().unwrap_or_default());
        let about = ["name", "description"].map(|key| link[key].as_str().unwrap_or_default());
        let about: Vec<String> =
            about.iter().filter(|text| !text.is_empty()).map(|text| label(text)).collect();
        self.line(&format!("[resource {uri}] {}", about.join(": ")));
    }

    fn medium(&mut self, mime: &str, base64: &str) {
        let made = match self.media.len() < MAX_PER_RESULT {
            true => media::from_base64(mime, base64),
            false => Err("there are too many"),
        };
        match made {
            Ok(media) => {
                self.line(&format!("[{}]", media.described()));
                self.media.push(media);
            }
            Err(why) => self.line(&format!("[{}, not shown: {why}]", label(mime))),
        }
    }

    /// Servers say the same thing in text, for clients that know nothing else. Once is enough.
    fn structured(&mut self, structured: &Value) {
        if structured.is_null() {
            return;
        }
        let said = serde_json::from_str::<Value>(self.text.trim()).is_ok_and(|text| {
            text == *structured || structured.get("result").is_some_and(|result| *result == text)
        });
        if !said && structured.get("result").and_then(Value::as_str) != Some(self.text.trim_end()) {
            self.line(&structured.to_string());
        }
    }

    fn line(&mut self, text: &str) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }
}

/// One line of a server's own words.
fn label(text: &str) -> String {
    let line = text.replace(|c: char| c.is_control(), " ");
    first_chars(line.trim(), MAX_LABEL).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(result: Value) -> ToolOutcome {
        outcome(&result, "mcp__s__t", &OutputStore::none())
    }

    #[test]
    fn every_kind_of_block_is_shown_or_named() {
        let png = "iVBORw0KGgo=";
        let outcome = told(json!({ "content": [
            { "type": "text", "text": "one" },
            { "type": "image", "data": png, "mimeType": "image/png" },
            { "type": "image", "data": "????", "mimeType": "image/png" },
            { "type": "audio", "data": "AAAA", "mimeType": "audio/wav" },
            { "type": "resource", "resource": { "uri": "file:///a", "text": "inside" } },
            { "type": "resource", "resource": { "uri": "file:///b", "blob": "AAAA", "mimeType": "application/zip" } },
            { "type": "resource", "resource": { "uri": "file:///c", "blob": png, "mimeType": "image/png" } },
            { "type": "resource_link", "uri": "file:///d", "name": "d", "description": "more\nof it" },
            { "type": "hologram" },
            "no block at all",
        ] }));
        assert_eq!(
            outcome.content,
            "one\n[image/png, 8 bytes]\n[image/png, not shown: it is not valid base64]\n[audio/wav, 3 bytes]\n\
             file:///a:\ninside\n[file:///b: application/zip of about 3 bytes, not shown]\nfile:///c:\n\
             [image/png, 8 bytes]\n[resource file:///d] d: more of it\n\
             [a block of the type `hologram`, not shown]\n[a block of the type `unknown`, not shown]"
        );
        let mimes: Vec<&str> = outcome.media.iter().map(|media| media.mime.as_str()).collect();
        assert_eq!(mimes, ["image/png", "audio/wav", "image/png"]);
        assert_eq!(outcome.error, None);
    }

    #[test]
    fn structured_content_is_told_once_and_as_it_was_written() {
        let structured = serde_json::from_str::<Value>(r#"{"n":1.50,"b":"x"}"#).unwrap();
        let text = |text: &str| json!([{ "type": "text", "text": text }]);
        for (content, expected) in [
            (json!([]), r#"{"n":1.50,"b":"x"}"#),
            (text(r#"{ "n": 1.50, "b": "x" }"#), r#"{ "n": 1.50, "b": "x" }"#),
            (text("Done."), "Done.\n{\"n\":1.50,\"b\":\"x\"}"),
        ] {
            assert_eq!(
                told(json!({ "content": content, "structuredContent": structured })).content,
                expected
            );
        }
        // How one framework wraps a plain value.
        assert_eq!(told(json!({ "content": text("5"), "structuredContent": { "result": 5 } })).content, "5");
        assert_eq!(
            told(json!({ "content": text("hi"), "structuredContent": { "result": "hi" } })).content,
            "hi"
        );
    }

    #[test]
    fn failures_and_nothing_are_said() {
        assert_eq!(told(json!({ "content": [] })).content, "(no output)");
        assert_eq!(told(json!({})).content, "(no output)");
        let failed =
            told(json!({ "content": [{ "type": "text", "text": "no such city" }], "isError": true }));
        assert_eq!((failed.content.as_str(), failed.error), ("no such city", Some(ToolErrorKind::Failed)));
        assert_eq!(told(json!({ "isError": true })).content, "The tool failed without saying why.");
        assert_eq!(told(json!({ "resultType": "input_required" })).error, Some(ToolErrorKind::Failed));
    }

    #[test]
    fn too_many_images_and_too_much_text_are_cut() {
        let image = json!({ "type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png" });
        let many = told(json!({ "content": vec![image; MAX_PER_RESULT + 2] }));
        assert_eq!(many.media.len(), MAX_PER_RESULT);
        assert_eq!(many.content.matches("there are too many").count(), 2);
        let long = told(json!({ "content": [{ "type": "text", "text": "x".repeat(1_000_000) }] }));
        assert!(long.content.len() < 30_000, "{}", long.content.len());
    }

    #[test]
    fn resources_are_listed_and_read() {
        let store = OutputStore::none();
        let list = resource(&json!({ "resources": [{ "uri": "a://1", "name": "one" }] }), "t", &store);
        assert_eq!(list.content, "[resource a://1] one");
        let read = resource(&json!({ "contents": [{ "uri": "a://1", "text": "inside" }] }), "t", &store);
        assert_eq!(read.content, "a://1:\ninside");
        assert_eq!(resource(&json!({}), "t", &store).content, "(nothing)");
    }
}
