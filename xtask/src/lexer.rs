//! Splits Rust source into code, comments and literal text, character by character.
//!
//! Not a parser: just enough that a rule never mistakes a word in a string or a comment for code.
//! Knows nested block comments, raw strings, byte and C strings, and tells `'a'` from `'a`.
//!
//! L1. The three channels have the lines of the source: a character that belongs to another channel
//!     is a space there, so columns agree.
//! L2. Unterminated comments and literals reach to the end of the file; nothing panics.
//!
//! Tests: below.

/// What a character belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Code,
    Comment,
    Literal,
}

/// The channels of a source file, line by line (L1).
#[derive(Debug, Default)]
pub(crate) struct Channels {
    /// Code; comments and the insides of literals are blank.
    pub(crate) code: Vec<String>,
    /// Comments, with their slashes.
    pub(crate) comments: Vec<String>,
    /// How many characters of the line are inside literals.
    pub(crate) literal_chars: Vec<usize>,
}

/// Splits `text` into its channels.
pub(crate) fn split(text: &str) -> Channels {
    let chars: Vec<char> = text.chars().collect();
    let classes = classify(&chars);
    let mut channels = Channels::default();
    let mut at = 0;
    for line in text.split('\n') {
        let length = line.chars().count();
        let pick = |class: Class| -> String {
            (at..at + length)
                .map(|i| if classes[i] == class { chars[i] } else { ' ' })
                .collect()
        };
        channels.code.push(pick(Class::Code));
        channels.comments.push(pick(Class::Comment));
        let literal = &classes[at..at + length];
        channels
            .literal_chars
            .push(literal.iter().filter(|c| **c == Class::Literal).count());
        at += length + 1;
    }
    channels
}

fn classify(chars: &[char]) -> Vec<Class> {
    let mut classes = vec![Class::Code; chars.len()];
    let peek = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut i = 0;
    while i < chars.len() {
        let before_is_word = i > 0 && is_word(chars[i - 1]);
        let (end, class) = match chars[i] {
            '/' if peek(i + 1) == '/' => (line_end(chars, i), Class::Comment),
            '/' if peek(i + 1) == '*' => (block_end(chars, i), Class::Comment),
            '"' => (string_end(chars, i + 1), Class::Literal),
            'r' | 'b' | 'c' if !before_is_word => match prefixed_end(chars, i) {
                Some(end) => (end, Class::Literal),
                None => (i + 1, Class::Code),
            },
            '\'' => match char_end(chars, i) {
                Some(end) => (end, Class::Literal),
                None => (i + 1, Class::Code),
            },
            _ => (i + 1, Class::Code),
        };
        let end = end.min(chars.len());
        classes[i..end].fill(class);
        i = end;
    }
    classes
}

/// Whether `c` can be part of an identifier.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn line_end(chars: &[char], from: usize) -> usize {
    let rest = chars[from..].iter().position(|c| *c == '\n');
    rest.map_or(chars.len(), |n| from + n)
}

fn block_end(chars: &[char], from: usize) -> usize {
    let mut depth = 0usize;
    let mut i = from;
    while i + 1 < chars.len() {
        match (chars[i], chars[i + 1]) {
            ('/', '*') => {
                depth += 1;
                i += 2;
            }
            ('*', '/') => {
                depth -= 1;
                i += 2;
                if depth == 0 {
                    return i;
                }
            }
            _ => i += 1,
        }
    }
    chars.len()
}

/// End of a string whose contents begin at `i`.
fn string_end(chars: &[char], mut i: usize) -> usize {
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// End of a literal with a prefix: `r".."`, `r#".."#`, `b".."`, `br".."`, `c".."`, `cr".."`,
/// `b'.'`; `None` for a plain word.
fn prefixed_end(chars: &[char], from: usize) -> Option<usize> {
    let peek = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let mut i = from + 1;
    let mut raw = chars[from] == 'r';
    if !raw && peek(i) == 'r' {
        raw = true;
        i += 1;
    }
    if !raw {
        return match peek(i) {
            '"' => Some(string_end(chars, i + 1)),
            '\'' if chars[from] == 'b' => char_end(chars, i),
            _ => None,
        };
    }
    let hashes = chars[i.min(chars.len())..]
        .iter()
        .take_while(|c| **c == '#')
        .count();
    i += hashes;
    if peek(i) != '"' {
        return None;
    }
    i += 1;
    while i < chars.len() {
        let closes = chars[i] == '"' && (1..=hashes).all(|n| peek(i + n) == '#');
        if closes {
            return Some(i + 1 + hashes);
        }
        i += 1;
    }
    Some(chars.len())
}

/// End of the character literal at `from`; `None` for a lifetime.
fn char_end(chars: &[char], from: usize) -> Option<usize> {
    let peek = |i: usize| chars.get(i).copied().unwrap_or('\0');
    if peek(from + 1) == '\\' {
        let tail = chars.get(from + 3..)?;
        return tail
            .iter()
            .position(|c| *c == '\'')
            .map(|n| from + 3 + n + 1);
    }
    (peek(from + 2) == '\'').then_some(from + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_in_comments_and_literals_are_not_code() {
        let text =
            "let a = \"unsafe\"; // unsafe\nlet b = r#\"x\" unsafe\"#; /* a /* b */ unsafe */ end";
        let channels = split(text);
        assert!(channels.code.iter().all(|line| !line.contains("unsafe")));
        assert!(channels.comments[0].contains("// unsafe"));
        assert!(channels.code[1].contains("let b ="));
        assert!(channels.code[1].ends_with("end"));
    }

    #[test]
    fn lifetimes_are_code_and_characters_are_not() {
        let channels = split("fn f<'a>(x: &'a str) -> char { match x { _ => '\\'' , _ => '\"' } }");
        assert!(channels.code[0].contains("&'a str"));
        assert!(channels.code[0].ends_with("} }"));
        assert_eq!(channels.literal_chars[0], 7);
    }

    #[test]
    fn unterminated_pieces_reach_the_end_without_panic() {
        for text in ["/* a", "\"a", "r#\"a", "b'", "'\\", "r", "r#", "br", "/*/"] {
            assert_eq!(split(text).code.len(), 1, "{text}");
        }
    }
}
