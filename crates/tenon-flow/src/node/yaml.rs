//! YAML: one document, with anchors, aliases and merge keys resolved.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::{
    Fault, FaultKind, Key, Kind, MAX_DEPTH, MAX_NODES, Node, Read, Style, too_deep, too_many, yaml_words,
};
use crate::diagnostic::quoted;
use crate::document::Place;

const MERGE: &str = "<<";

/// Only the first document is read. What is wrong with a single key or tag does not keep the rest from being read.
pub(super) fn read(text: &str) -> Read {
    let mut builder = Builder::default();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut events = Parser::new_from_str(text);
    let nothing =
        Node { place: Place::START, kind: Kind::Scalar { text: String::new(), style: Style::Plain } };
    while let Some(next) = events.next() {
        let taken = match next {
            Ok((event, span)) => {
                builder.faults.extend(comment_in_text(text, &event, &span));
                let tag = span.tag_start.as_ref().map(place);
                builder.event(event, place(&span.start), tag)
            }
            Err(error) => Err(yaml_words::fault(text, &error, place(error.marker()))),
        };
        if let Err(fault) = taken {
            builder.faults.push(fault);
            return Read { root: None, faults: builder.faults };
        }
        if let Some(root) = builder.root.take() {
            builder.faults.extend(another_document(events));
            return Read { root: Some(root), faults: builder.faults };
        }
    }
    Read { root: Some(nothing), faults: builder.faults }
}

/// `fix #12 first`: what follows is a comment to YAML, and hardly one to who wrote it.
fn comment_in_text(text: &str, event: &Event<'_>, span: &granit_parser::Span) -> Option<Fault> {
    let Event::Scalar(value, ScalarStyle::Plain, ..) = event else { return None };
    let rest = text.get(span.end.byte_offset()?..)?;
    let comment = rest.trim_start_matches([' ', '\t']);
    let is_word = comment.strip_prefix('#').is_some_and(|word| word.starts_with(char::is_alphanumeric));
    if value.is_empty() || !is_word {
        return None;
    }
    let end = place(&span.end);
    let blanks = u32::try_from(rest.len() - comment.len()).unwrap_or(0);
    let comment = comment.split(['\n', '\r']).next()?;
    let message = format!("`{}` is a comment here, and no part of the text", quoted(comment));
    let hint = "put the whole text in quotes, or a space after the `#` of a comment";
    let place = Place { column: end.column + blanks, ..end };
    Some(Fault { kind: FaultKind::Odd, ..Fault::new(place, message, hint) })
}

/// Where a second document begins, which nobody will read.
fn another_document<'e>(
    events: impl Iterator<Item = Result<(Event<'e>, granit_parser::Span), granit_parser::ScanError>>,
) -> Option<Fault> {
    let mut events = events.map_while(Result::ok);
    let began = events.find_map(|(event, span)| match event {
        Event::DocumentStart(..) => Some(place(&span.start)),
        _ => None,
    })?;
    // `---` at the very end begins nothing.
    let is_empty = events.next().is_none_or(
        |(event, _)| matches!(event, Event::Scalar(text, ScalarStyle::Plain, 0, None) if text.is_empty()),
    );
    let message = "only the first document of a file is read, and this begins a second one";
    let hint = "put it into a file of its own, or take out the `---`";
    (!is_empty).then(|| Fault { kind: FaultKind::Odd, ..Fault::new(began, message, hint) })
}

fn place(marker: &Marker) -> Place {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Place { line: count(marker.line().max(1)), column: count(marker.col() + 1) }
}

#[derive(Default)]
struct Builder {
    open: Vec<Frame>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
    root: Option<Node>,
    faults: Vec<Fault>,
}

struct Frame {
    place: Place,
    anchor: usize,
    /// How many nodes there were before this one.
    began: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<(Key, Node)>, seen: HashSet<String>, key: NextKey, merged: Vec<Node> },
}

impl Builder {
    fn event(&mut self, event: Event<'_>, place: Place, tag_at: Option<Place>) -> Result<(), Fault> {
        let tag_at = tag_at.unwrap_or(place);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let began = self.count(place, 1)?;
                let style = self.scalar_style(style, tag, tag_at);
                let node = Node { place, kind: Kind::Scalar { text: text.into_owned(), style } };
                self.finish(node, anchor, began)
            }
            Event::SequenceStart(_, anchor, tag) => {
                self.collection_tag(tag, tag_at);
                self.open(place, anchor, Content::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                self.collection_tag(tag, tag_at);
                let empty = Content::Map {
                    entries: Vec::new(),
                    seen: HashSet::new(),
                    key: NextKey::Awaited,
                    merged: Vec::new(),
                };
                self.open(place, anchor, empty)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(frame) => {
                    let kind = match frame.content {
                        Content::List(items) => Kind::List(items),
                        Content::Map { entries, seen, merged, .. } => {
                            Kind::Map(self.merge(entries, seen, merged))
                        }
                    };
                    self.finish(Node { place: frame.place, kind }, frame.anchor, frame.began)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor).cloned() else {
                    let message = "an alias cannot stand inside what it names";
                    return Err(Fault::new(place, message, "write out what is meant here"));
                };
                let began = self.count(place, size)?;
                self.finish(node, 0, began)
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, place: Place, anchor: usize, content: Content) -> Result<(), Fault> {
        let began = self.count(place, 1)?;
        if self.open.len() >= MAX_DEPTH {
            return Err(too_deep(place));
        }
        self.open.push(Frame { place, anchor, began, content });
        Ok(())
    }

    fn count(&mut self, place: Place, more: usize) -> Result<usize, Fault> {
        let began = self.nodes;
        self.nodes += more;
        if self.nodes > MAX_NODES {
            return Err(too_many(place));
        }
        Ok(began)
    }

    fn finish(&mut self, node: Node, anchor: usize, began: usize) -> Result<(), Fault> {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), self.nodes - began));
        }
        match self.open.last_mut().map(|frame| &mut frame.content) {
            None => self.root = Some(node),
            Some(Content::List(items)) => items.push(node),
            Some(Content::Map { entries, seen, key, merged }) => match std::mem::take(key) {
                NextKey::Awaited => *key = new_key(node, &mut self.faults),
                // That it is none has been told.
                NextKey::NoName => {}
                NextKey::Name(key) if key.name == MERGE => merged.push(node),
                // The first one stays.
                NextKey::Name(key) if !seen.insert(key.name.clone()) => {
                    let message = format!("`{}` is written twice", quoted(&key.name));
                    let hint = "take one of the two out, or give it another name";
                    self.faults.push(Fault::new(key.place, message, hint));
                }
                NextKey::Name(key) => entries.push((key, node)),
            },
        }
        Ok(())
    }
}

/// What a map waits for.
#[derive(Default)]
enum NextKey {
    #[default]
    Awaited,
    /// A value, for this name.
    Name(Key),
    /// A value, for what is no name.
    NoName,
}

fn new_key(node: Node, faults: &mut Vec<Fault>) -> NextKey {
    match node.kind {
        Kind::Scalar { text, .. } => NextKey::Name(Key { name: text, place: node.place }),
        Kind::List(_) | Kind::Map(_) => {
            let hint = "write a name before the `:`; text with brackets or braces stands in quotes";
            faults.push(Fault::new(node.place, "a key is text, not a list or a map", hint));
            NextKey::NoName
        }
    }
}

impl Builder {
    /// What is written beside `<<` wins over what it brings; of several, the first.
    fn merge(
        &mut self,
        entries: Vec<(Key, Node)>,
        mut seen: HashSet<String>,
        merged: Vec<Node>,
    ) -> Vec<(Key, Node)> {
        let mut all = entries;
        for source in merged {
            let maps = match source.kind {
                Kind::List(items) => items,
                kind => vec![Node { place: source.place, kind }],
            };
            for map in maps {
                let Kind::Map(entries) = map.kind else {
                    let hint = "name the anchor of a map: `<<: *defaults`";
                    self.faults.push(Fault::new(map.place, "`<<` takes a map, or a list of maps", hint));
                    continue;
                };
                for (key, value) in entries {
                    if seen.insert(key.name.clone()) {
                        all.push((key, value));
                    }
                }
            }
        }
        all
    }

    fn scalar_style(&mut self, style: ScalarStyle, tag: Option<Cow<'_, Tag>>, place: Place) -> Style {
        let written = if style == ScalarStyle::Plain { Style::Plain } else { Style::Quoted };
        match tag.as_deref().map(ToString::to_string).as_deref() {
            None => written,
            Some(tag) if is_core(tag, &["str"]) || tag == "!" => Style::Quoted,
            Some(tag) if is_core(tag, &["int", "float", "bool", "null"]) => Style::Plain,
            Some(tag) => {
                self.unknown_tag(tag, place);
                written
            }
        }
    }

    fn collection_tag(&mut self, tag: Option<Cow<'_, Tag>>, place: Place) {
        match tag.as_deref().map(ToString::to_string).as_deref() {
            Some(tag) if !is_core(tag, &["map", "seq"]) && tag != "!" => self.unknown_tag(tag, place),
            _ => {}
        }
    }

    fn unknown_tag(&mut self, tag: &str, place: Place) {
        let message = format!("the tag `{}` has no meaning here", quoted(tag));
        let hint = "take it out; a text that begins with `!` stands in quotes";
        self.faults.push(Fault::new(place, message, hint));
    }
}

fn is_core(tag: &str, names: &[&str]) -> bool {
    names.iter().any(|name| tag.strip_prefix("!!").or(tag.strip_prefix("tag:yaml.org,2002:")) == Some(*name))
}
