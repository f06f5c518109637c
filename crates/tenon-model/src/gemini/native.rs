//! What Gemini wants back with a turn: the signature of a part, on exactly that part, and the id of a call
//! where it gave one.
//!
//! A signature may stand on a thought, on a call, or on a piece of the text. The conversation has no place
//! beside text, so a signature of text travels as a thought without words that follows it.
//!
//! All are kept with a mark of where they came from: only what is ours is sent back.

use serde_json::{Value, json};

const WIRE_KEY: &str = "wire";
const WIRE: &str = "gemini";
const PROVIDER_KEY: &str = "provider";
const SIGNATURE_KEY: &str = "thoughtSignature";
const ID_KEY: &str = "id";
/// What is signed: `text` or `thought`.
const SIGNED_KEY: &str = "signed";
/// How much of what was streamed so far the signed part is, from its end. Parts are streamed in pieces,
/// and one of the pieces has the signature.
const BYTES_KEY: &str = "bytes";

/// What kind of part a signature stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signed {
    Text,
    Thought,
}

pub(super) fn of_signed_part(signed: Signed, part_text: &str, signature: &str, provider: &str) -> Value {
    let signed = match signed {
        Signed::Text => "text",
        Signed::Thought => "thought",
    };
    json!({
        WIRE_KEY: WIRE,
        PROVIDER_KEY: provider,
        SIGNED_KEY: signed,
        BYTES_KEY: part_text.len(),
        SIGNATURE_KEY: signature,
    })
}

/// `None` where there is nothing to give back.
pub(super) fn of_call(id: Option<&str>, signature: Option<&str>, provider: &str) -> Option<Value> {
    let mut native = json!({ WIRE_KEY: WIRE, PROVIDER_KEY: provider });
    if let Some(id) = id {
        native[ID_KEY] = json!(id);
    }
    if let Some(signature) = signature {
        native[SIGNATURE_KEY] = json!(signature);
    }
    (id.is_some() || signature.is_some()).then_some(native)
}

/// A part that was signed.
pub(super) struct SignedPart<'a> {
    pub signed: Signed,
    /// The length of its text.
    pub bytes: usize,
    pub signature: &'a str,
}

pub(super) fn signed_part<'a>(native: &'a Value, provider: &str) -> Option<SignedPart<'a>> {
    let signed = match own(native, provider)?.get(SIGNED_KEY)?.as_str()? {
        "text" => Signed::Text,
        "thought" => Signed::Thought,
        _ => return None,
    };
    let bytes = usize::try_from(native.get(BYTES_KEY)?.as_u64()?).ok()?;
    Some(SignedPart { signed, bytes, signature: native.get(SIGNATURE_KEY)?.as_str()? })
}

pub(super) fn call_signature<'a>(native: &'a Value, provider: &str) -> Option<&'a str> {
    own(native, provider)?.get(SIGNATURE_KEY)?.as_str()
}

/// The id that the server gave a call, which may not be the conversation's.
pub(super) fn call_id<'a>(native: &'a Value, provider: &str) -> Option<&'a str> {
    own(native, provider)?.get(ID_KEY)?.as_str()
}

/// Parts of a conversation may come from another provider, whose natives mean nothing here.
fn own<'a>(native: &'a Value, provider: &str) -> Option<&'a Value> {
    (native[WIRE_KEY] == WIRE && native[PROVIDER_KEY] == provider).then_some(native)
}
