//! YAML: one document, with anchors, aliases and merge keys resolved.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use super::{Key, Kind, MAX_DEPTH, MAX_NODES, Node, Style, Unreadable};
use crate::document::Place;

const MERGE: &str = "<<";

/// Only the first document is read.
pub(super) fn read(text: &str) -> Result<Node, Unreadable> {
    let mut builder = Builder::default();
    for next in Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        let (event, span) = next.map_err(|error| Unreadable::new(place(error.marker()), error.info()))?;
        builder.event(event, place(&span.start))?;
        if let Some(root) = builder.root.take() {
            return Ok(root);
        }
    }
    Ok(Node { place: Place::START, kind: Kind::Scalar { text: String::new(), style: Style::Plain } })
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
    Map { entries: Vec<(Key, Node)>, seen: HashSet<String>, key: Option<Key>, merged: Vec<Node> },
}

impl Builder {
    fn event(&mut self, event: Event<'_>, place: Place) -> Result<(), Unreadable> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let began = self.count(place, 1)?;
                let style = scalar_style(style, tag, place)?;
                let node = Node { place, kind: Kind::Scalar { text: text.into_owned(), style } };
                self.finish(node, anchor, began)
            }
            Event::SequenceStart(_, anchor, tag) => {
                collection_tag(tag, place)?;
                self.open(place, anchor, Content::List(Vec::new()))
            }
            Event::MappingStart(_, anchor, tag) => {
                collection_tag(tag, place)?;
                let empty =
                    Content::Map { entries: Vec::new(), seen: HashSet::new(), key: None, merged: Vec::new() };
                self.open(place, anchor, empty)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(frame) => {
                    let kind = match frame.content {
                        Content::List(items) => Kind::List(items),
                        Content::Map { entries, seen, merged, .. } => {
                            Kind::Map(merge(entries, seen, merged)?)
                        }
                    };
                    self.finish(Node { place: frame.place, kind }, frame.anchor, frame.began)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor).cloned() else {
                    return Err(Unreadable::new(place, "an alias cannot stand inside what it names"));
                };
                let began = self.count(place, size)?;
                self.finish(node, 0, began)
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, place: Place, anchor: usize, content: Content) -> Result<(), Unreadable> {
        let began = self.count(place, 1)?;
        if self.open.len() >= MAX_DEPTH {
            return Err(Unreadable::too_large(
                place,
                format!("values are nested more than {MAX_DEPTH} levels deep"),
            ));
        }
        self.open.push(Frame { place, anchor, began, content });
        Ok(())
    }

    fn count(&mut self, place: Place, more: usize) -> Result<usize, Unreadable> {
        let began = self.nodes;
        self.nodes += more;
        if self.nodes > MAX_NODES {
            let message = format!("the document stands for more than {MAX_NODES} values, aliases included");
            return Err(Unreadable::too_large(place, message));
        }
        Ok(began)
    }

    fn finish(&mut self, node: Node, anchor: usize, began: usize) -> Result<(), Unreadable> {
        if anchor != 0 {
            self.anchors.insert(anchor, (node.clone(), self.nodes - began));
        }
        match self.open.last_mut().map(|frame| &mut frame.content) {
            None => self.root = Some(node),
            Some(Content::List(items)) => items.push(node),
            Some(Content::Map { entries, seen, key, merged }) => match key.take() {
                None => *key = Some(new_key(node)?),
                Some(key) if key.name == MERGE => merged.push(node),
                Some(key) => {
                    if !seen.insert(key.name.clone()) {
                        let message = format!("`{}` is written twice", crate::diagnostic::quoted(&key.name));
                        return Err(Unreadable::new(key.place, message));
                    }
                    entries.push((key, node));
                }
            },
        }
        Ok(())
    }
}

fn new_key(node: Node) -> Result<Key, Unreadable> {
    match node.kind {
        Kind::Scalar { text, .. } => Ok(Key { name: text, place: node.place }),
        Kind::List(_) | Kind::Map(_) => {
            Err(Unreadable::new(node.place, "a key is text, not a list or a map"))
        }
    }
}

/// What is written beside `<<` wins over what it brings; of several, the first.
fn merge(
    entries: Vec<(Key, Node)>,
    mut seen: HashSet<String>,
    merged: Vec<Node>,
) -> Result<Vec<(Key, Node)>, Unreadable> {
    let mut all = entries;
    for source in merged {
        let maps = match source.kind {
            Kind::List(items) => items,
            kind => vec![Node { place: source.place, kind }],
        };
        for map in maps {
            let Kind::Map(entries) = map.kind else {
                return Err(Unreadable::new(map.place, "`<<` takes a map, or a list of maps"));
            };
            for (key, value) in entries {
                if seen.insert(key.name.clone()) {
                    all.push((key, value));
                }
            }
        }
    }
    Ok(all)
}

fn scalar_style(style: ScalarStyle, tag: Option<Cow<'_, Tag>>, place: Place) -> Result<Style, Unreadable> {
    let written = if style == ScalarStyle::Plain { Style::Plain } else { Style::Quoted };
    match tag.as_deref().map(ToString::to_string).as_deref() {
        None => Ok(written),
        Some(tag) if is_core(tag, &["str"]) || tag == "!" => Ok(Style::Quoted),
        Some(tag) if is_core(tag, &["int", "float", "bool", "null"]) => Ok(Style::Plain),
        Some(tag) => Err(unknown_tag(tag, place)),
    }
}

fn collection_tag(tag: Option<Cow<'_, Tag>>, place: Place) -> Result<(), Unreadable> {
    match tag.as_deref().map(ToString::to_string).as_deref() {
        Some(tag) if !is_core(tag, &["map", "seq"]) && tag != "!" => Err(unknown_tag(tag, place)),
        _ => Ok(()),
    }
}

fn is_core(tag: &str, names: &[&str]) -> bool {
    names.iter().any(|name| tag.strip_prefix("!!").or(tag.strip_prefix("tag:yaml.org,2002:")) == Some(*name))
}

fn unknown_tag(tag: &str, place: Place) -> Unreadable {
    Unreadable::new(place, format!("the tag `{}` has no meaning here", crate::diagnostic::quoted(tag)))
}
