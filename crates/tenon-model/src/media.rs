//! Which images a model is shown. A conversation may hold more than a protocol takes, than fits into a
//! request, or than the model can see; what is left out is named in a line of text, so that the model knows.
//!
//! [`WithoutUnseen`] stands before a protocol's client; how an image is written is in each protocol's
//! `body.rs`, and what a tool may bring along is decided by the tools.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use tenon_core::{
    Cancel, Delta, DeltaStream, ErrorClass, Media, Message, ModelClient, ModelError, Part, Request,
};

use crate::delta_stream::{Out, deltas};

/// What all of a request's media may take as base64. Providers take 20 to 32 MB for a whole request.
const MAX_REQUEST_BYTES: usize = 14 * 1024 * 1024;
/// The strictest provider takes 100 images, and is strict about their sizes beyond 20.
const MAX_IN_REQUEST: usize = 20;

/// The one kind of document that all protocols take.
pub(crate) const PDF: &str = "application/pdf";
/// What a document is called on protocols that want a name for it.
pub(crate) const PDF_NAME: &str = "document.pdf";

/// What a protocol can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// And PDF documents.
    Images,
    /// Recordings too.
    ImagesAndMore,
}

/// A client that is shown no media it cannot take.
pub struct WithoutUnseen {
    inner: Arc<dyn ModelClient>,
    carries: Carries,
    /// Models that have refused images.
    blind: Arc<Mutex<HashSet<String>>>,
}

impl WithoutUnseen {
    pub fn new(inner: Arc<dyn ModelClient>, carries: Carries) -> WithoutUnseen {
        WithoutUnseen { inner, carries, blind: Arc::default() }
    }
}

impl ModelClient for WithoutUnseen {
    fn stream(&self, mut request: Request, cancel: Cancel) -> DeltaStream {
        if media_of(&request.messages).next().is_none() {
            return self.inner.stream(request, cancel);
        }
        if self.blind.lock().unwrap_or_else(PoisonError::into_inner).contains(&request.model) {
            blindfold(&mut request.messages);
            return self.inner.stream(request, cancel);
        }
        leave_out(&mut request.messages, self.carries);
        let (inner, blind) = (self.inner.clone(), self.blind.clone());
        deltas(cancel.clone(), move |out| async move {
            let first = inner.stream(request.clone(), cancel.clone());
            match hand_over(first, &out).await {
                Err((error, Given::Nothing)) if cannot_see(&error) => {}
                ended => return ended.map_err(|(error, _)| error),
            }
            blind.lock().unwrap_or_else(PoisonError::into_inner).insert(request.model.clone());
            blindfold(&mut request.messages);
            hand_over(inner.stream(request, cancel), &out).await.map_err(|(error, _)| error)
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Nothing,
    Something,
}

async fn hand_over(mut answer: DeltaStream, out: &Out) -> Result<(), (ModelError, Given)> {
    let mut given = Given::Nothing;
    while let Some(delta) = answer.next().await {
        let delta: Delta = delta.map_err(|error| (error, given))?;
        given = Given::Something;
        out.push(delta);
        out.pause().await;
    }
    Ok(())
}

/// Does the server refuse the request because of an image? There is no code for it; they all say it in words.
fn cannot_see(error: &ModelError) -> bool {
    const WORDS: [&str; 9] =
        ["image", "vision", "multimodal", "multi-modal", "audio", "pdf", "'file'", "\"file\"", "`file`"];
    let said = error.message.to_ascii_lowercase();
    matches!(error.http_status, Some(400 | 404 | 413 | 415 | 422 | 500))
        && !matches!(error.class, ErrorClass::Auth)
        && WORDS.iter().any(|word| said.contains(word))
}

fn media_of(messages: &[Message]) -> impl Iterator<Item = &Media> {
    messages.iter().flat_map(|message| &message.parts).flat_map(|part| match part {
        Part::Media(media) => std::slice::from_ref(media),
        Part::ToolResult(result) => result.media.as_slice(),
        Part::Text { .. } | Part::Thinking { .. } | Part::ToolCall(_) => &[],
    })
}

/// Leaves out what the protocol does not carry, and of the rest what is too much: the oldest go first.
fn leave_out(messages: &mut [Message], carries: Carries) {
    let (mut bytes, mut count) = (0, 0);
    replace(messages, &mut |media| {
        if !is_carried(media, carries) {
            return Some("not shown: models of this kind are shown no such files");
        }
        bytes += media.data.len();
        count += 1;
        (bytes > MAX_REQUEST_BYTES || count > MAX_IN_REQUEST)
            .then_some("no longer shown: newer ones take all the room")
    });
}

fn blindfold(messages: &mut [Message]) {
    replace(messages, &mut |_| Some("not shown: this model cannot see it"));
}

fn is_carried(media: &Media, carries: Carries) -> bool {
    match media.mime.as_str() {
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" | PDF => true,
        mime => carries == Carries::ImagesAndMore && mime.starts_with("audio/"),
    }
}

/// Puts a line of text where `why_not` gives a reason. Asks for the newest first.
fn replace(messages: &mut [Message], why_not: &mut dyn FnMut(&Media) -> Option<&'static str>) {
    for part in messages.iter_mut().rev().flat_map(|message| message.parts.iter_mut().rev()) {
        match part {
            Part::Media(media) => {
                if let Some(why) = why_not(media) {
                    *part = Part::Text { text: line(media, why) };
                }
            }
            Part::ToolResult(result) if !result.media.is_empty() => {
                let mut lines = Vec::new();
                let mut kept = Vec::new();
                for media in result.media.drain(..).rev() {
                    match why_not(&media) {
                        Some(why) => lines.push(line(&media, why)),
                        None => kept.push(media),
                    }
                }
                kept.reverse();
                result.media = kept;
                for line in lines.iter().rev() {
                    result.content.push_str(line);
                }
            }
            Part::Text { .. } | Part::Thinking { .. } | Part::ToolCall(_) | Part::ToolResult(_) => {}
        }
    }
}

fn line(media: &Media, why: &str) -> String {
    format!("\n[{}: {why}]", media.described())
}

/// What follows the results of a user's turn on protocols whose results are text.
pub(crate) enum Shown<'a> {
    Text(Cow<'a, str>),
    Media(&'a Media),
}

/// The media of each result under its tool's name, then what the user says and shows. Empty if there are no
/// media: then the turn is text, and is written as such.
pub(crate) fn shown(message: &Message) -> Vec<Shown<'_>> {
    if media_of(std::slice::from_ref(message)).next().is_none() {
        return Vec::new();
    }
    let mut shown = Vec::new();
    for part in &message.parts {
        if let Part::ToolResult(result) = part
            && !result.media.is_empty()
        {
            shown.push(Shown::Text(Cow::Owned(format!("`{}` returned:", result.name))));
            shown.extend(result.media.iter().map(Shown::Media));
        }
    }
    for part in &message.parts {
        match part {
            Part::Text { text } if !text.is_empty() => shown.push(Shown::Text(Cow::Borrowed(text))),
            Part::Media(media) => shown.push(Shown::Media(media)),
            Part::Text { .. } | Part::Thinking { .. } | Part::ToolCall(_) | Part::ToolResult(_) => {}
        }
    }
    shown
}

/// `data:image/png;base64,…`, written without a copy of the megabytes.
pub(crate) fn data_url<S: serde::Serializer>(media: &&Media, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("data:{};base64,{}", media.mime, media.data))
}
