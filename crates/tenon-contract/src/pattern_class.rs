//! The inside of `[…]`, translated item by item.

use std::fmt::Write as _;

use crate::pattern::{Escape, Reader, Translated, refuse};

const NO_CHARACTER: &str = r"[^\x{0}-\x{10FFFF}]";
const ANY_CHARACTER: &str = r"[\x{0}-\x{10FFFF}]";

enum Item {
    Char(char),
    /// Already in the engine's syntax.
    Set(String),
}

impl Reader {
    /// After `[`.
    pub(crate) fn class(&mut self) -> Translated<()> {
        let negated = self.take('^');
        if self.take(']') {
            self.out.push_str(if negated { ANY_CHARACTER } else { NO_CHARACTER });
            return Ok(());
        }
        self.out.push_str(if negated { "[^" } else { "[" });
        loop {
            let Some(c) = self.next() else { return refuse("opens a character class that is not closed") };
            if c == ']' {
                break;
            }
            let first = self.item(c)?;
            let is_range = self.peek(0) == Some('-') && !matches!(self.peek(1), Some(']') | None);
            if !is_range {
                self.write_item(&first);
                continue;
            }
            self.take('-');
            let Some(c) = self.next() else { return refuse("opens a character class that is not closed") };
            let last = self.item(c)?;
            match (&first, &last) {
                (Item::Char(low), Item::Char(high)) if low <= high => {
                    self.write_item(&first);
                    self.out.push('-');
                    self.write_item(&last);
                }
                (Item::Char(_), Item::Char(_)) => {
                    return refuse("has a character range that ends before it starts");
                }
                // A set cannot be the end of a range: the hyphen stands for itself.
                _ => {
                    self.write_item(&first);
                    self.write_item(&Item::Char('-'));
                    self.write_item(&last);
                }
            }
        }
        self.out.push(']');
        Ok(())
    }

    fn item(&mut self, c: char) -> Translated<Item> {
        if c != '\\' {
            return Ok(Item::Char(c));
        }
        Ok(match self.escape()? {
            Escape::Char(c) => Item::Char(c),
            Escape::Set(set) => Item::Set(set.to_owned()),
            Escape::Property(property) => Item::Set(property),
            Escape::Boundary => Item::Char('\u{8}'),
            Escape::NoBoundary => return refuse("has `\\B` in a character class, where it means nothing"),
        })
    }

    fn write_item(&mut self, item: &Item) {
        match item {
            Item::Set(set) => self.out.push_str(set),
            Item::Char(c) if c.is_ascii_alphanumeric() || (!c.is_ascii() && !c.is_control()) => {
                self.out.push(*c)
            }
            // By number: the engine gives more punctuation a meaning inside classes than ECMA-262 does.
            Item::Char(c) => {
                let _ = write!(self.out, "\\x{{{:X}}}", u32::from(*c));
            }
        }
    }
}
