//! The paths a file mentions: `use` trees taken apart, and paths in the middle of code.
//!
//! `use a::{b, c::d};` gives `a::b` and `a::c::d`; `a::b::<T>::c(x)` gives `a::b`.
//!
//! P1. A path's line is where its first segment stands.
//! P2. Single words are paths too: rules look for the prefixes they know.
//!
//! Tests: below.

use crate::lexer::is_word;

/// A path and the line (from 1) on which it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mention {
    pub(crate) line: usize,
    pub(crate) segments: Vec<String>,
}

/// All paths of the numbered lines of code.
pub(crate) fn mentions<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Mention> {
    let mut tokens = Vec::new();
    for (number, line) in lines {
        tokenize(number, line, &mut tokens);
    }
    let mut reader = Reader {
        tokens: &tokens,
        at: 0,
        found: Vec::new(),
    };
    while reader.at < tokens.len() {
        match tokens[reader.at].1 {
            Token::Word(_) => reader.path(&[]),
            _ => reader.at += 1,
        }
    }
    reader.found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Colons,
    Open,
    Close,
    Other,
}

fn tokenize<'a>(number: usize, line: &'a str, tokens: &mut Vec<(usize, Token<'a>)>) {
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (length, token) = if word > 0 {
            (word, Some(Token::Word(&rest[..word])))
        } else if rest.starts_with("::") {
            (2, Some(Token::Colons))
        } else {
            let token = match first {
                '{' => Some(Token::Open),
                '}' => Some(Token::Close),
                c if c.is_whitespace() => None,
                _ => Some(Token::Other),
            };
            (first.len_utf8(), token)
        };
        tokens.extend(token.map(|token| (number, token)));
        rest = &rest[length..];
    }
}

struct Reader<'a> {
    tokens: &'a [(usize, Token<'a>)],
    at: usize,
    found: Vec<Mention>,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<Token<'_>> {
        self.tokens.get(self.at + ahead).map(|(_, token)| *token)
    }

    /// Reads a path whose first word is the current token, below `prefix`.
    fn path(&mut self, prefix: &[String]) {
        let line = self.tokens[self.at].0;
        let mut segments = prefix.to_vec();
        while let Some(Token::Word(word)) = self.peek(0) {
            segments.push(word.to_owned());
            self.at += 1;
            if self.peek(0) != Some(Token::Colons) {
                break;
            }
            match self.peek(1) {
                Some(Token::Open) => {
                    self.at += 2;
                    self.group(&segments);
                    return;
                }
                Some(Token::Word(_)) => self.at += 1,
                _ => break,
            }
        }
        self.found.push(Mention { line, segments });
    }

    /// Reads the members of a `{..}` below `prefix`, and its closing brace.
    fn group(&mut self, prefix: &[String]) {
        while let Some(token) = self.peek(0) {
            match token {
                Token::Close => {
                    self.at += 1;
                    return;
                }
                Token::Word("as") => self.at += 2,
                Token::Word(_) => self.path(prefix),
                _ => self.at += 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        mentions((1..).zip(text.lines()))
            .into_iter()
            .map(|mention| format!("{} {}", mention.line, mention.segments.join("::")))
            .collect()
    }

    #[test]
    fn use_trees_are_taken_apart() {
        let found = of("use std::{\n  fs::{self, File as F},\n  sync::Arc,\n};");
        assert_eq!(
            found,
            [
                "1 use",
                "2 std::fs::self",
                "2 std::fs::File",
                "3 std::sync::Arc"
            ]
        );
    }

    #[test]
    fn paths_inside_code_are_found() {
        assert_eq!(
            of("let x = crate::a::B::<T>::new(std::fs::read)"),
            [
                "1 let",
                "1 x",
                "1 crate::a::B",
                "1 T",
                "1 new",
                "1 std::fs::read"
            ]
        );
    }
}
