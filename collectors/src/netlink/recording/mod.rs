//! Recorded questions and answers, as a text that people read and write.
//!
//! ```text
//! # What it is about.
//! > rdma 0x1411 0x5 1:u32=0 3:u32=1
//! < 1:u32=0 2:"mlx5_0" 3:u32=1
//!   80{
//!     81{ 82:"np_cnp_sent" 83:u64=7 }
//!   }
//! > rdma 0x1411 0x5 0800010001000000 0800030001000000
//! ! EINVAL
//! ```
//!
//! `>` asks: protocol (rdma, route, generic), kind and flags of the message, and what follows its head. `<` is one message
//! of the answer, without its head; `!` ends it with an error. A line without a mark goes on with the one above. Bytes are
//! written in hexadecimal, or as attributes: `KIND:"text"` (with its zero), `KIND:u8=`, `u16=`, `u32=`, `u64=`,
//! `KIND:BYTES`, and `KIND{ ... }` for one that holds others. Numbers are decimal, or hexadecimal after 0x. Who asks the
//! same twice gets the later answer: a step of a case is laid behind what is there.

mod payload;

use std::fmt;

use nix::errno::Errno;

use super::Protocol;
use crate::Error;
use payload::Payload;

/// What was asked, and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recording(Vec<Exchange>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Exchange {
    protocol: Protocol,
    kind: u16,
    flags: u16,
    question: Vec<u8>,
    answer: RecordedReply,
}

/// What the kernel said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordedReply {
    /// Each without its head.
    pub(crate) messages: Vec<Vec<u8>>,
    /// How it ended.
    pub(crate) refused: Option<Errno>,
}

/// A mark and the words behind it, on one or more lines.
struct Paragraph<'a> {
    line: usize,
    mark: &'a str,
    words: Vec<Word<'a>>,
}

/// A word and the line that it stands on.
type Word<'a> = (usize, &'a str);

impl Recording {
    /// What was answered to that, last.
    pub(crate) fn answer(
        &self,
        protocol: Protocol,
        kind: u16,
        flags: u16,
        question: &[u8],
    ) -> Option<&RecordedReply> {
        let asked = |e: &&Exchange| (e.protocol, e.kind, e.flags) == (protocol, kind, flags);
        let mut found = self.0.iter().rev().filter(asked);
        found.find(|e| e.question == question).map(|e| &e.answer)
    }

    /// Reads a text. `name` is the file, for errors.
    ///
    /// # Errors
    /// [`Error::Parse`] of the line that is not what it should be.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let wrong =
            |(line, found): Word<'_>, expected| Error::parse(format!("{name}:{line}"), found, expected);
        let mut all: Vec<Exchange> = Vec::new();
        for Paragraph { line, mark, words } in paragraphs(text).map_err(|(w, e)| wrong(w, e))? {
            if mark == ">" {
                let exchange = question(line, &words).map_err(|(w, e)| wrong(w, e))?;
                all.push(exchange);
                continue;
            }
            let last = all.last_mut().filter(|e| e.answer.refused.is_none());
            let Some(Exchange { answer, .. }) = last else {
                return Err(wrong((line, mark), "`>` before an answer"));
            };
            if mark == "<" {
                let message = Payload::read(&words).map_err(|(w, e)| wrong(w, e))?;
                answer.messages.push(message);
            } else {
                answer.refused = Some(refusal(line, &words).map_err(|(w, e)| wrong(w, e))?);
            }
        }
        Ok(Self(all))
    }
}

/// What was found where, and what was expected.
type RecordingFault<'a> = (Word<'a>, &'static str);

fn paragraphs(text: &str) -> Result<Vec<Paragraph<'_>>, RecordingFault<'_>> {
    let mut all: Vec<Paragraph<'_>> = Vec::new();
    for (content, line) in text.lines().zip(1..) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let marked = content.split_at_checked(1);
        let words = match marked.filter(|(mark, _)| [">", "<", "!"].contains(mark)) {
            Some((mark, rest)) => {
                let words = Vec::new();
                all.push(Paragraph { line, mark, words });
                rest
            }
            None => content,
        };
        let Some(last) = all.last_mut() else {
            return Err(((line, content), "`>`, `<`, `!` or `#`"));
        };
        last.words.extend(split(words).map(|word| (line, word)));
    }
    Ok(all)
}

/// At white space that is not in quotes.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let parts = text.split(move |c: char| {
        is_quoted ^= c == '"';
        c.is_whitespace() && !is_quoted
    });
    parts.filter(|part| !part.is_empty())
}

fn question<'a>(line: usize, words: &[Word<'a>]) -> Result<Exchange, RecordingFault<'a>> {
    let expected = "a protocol (rdma, route, generic), a kind and flags";
    let Some(([protocol, kind, flags], rest)) = words.split_first_chunk() else {
        return Err(((line, ">"), expected));
    };
    let known = Protocol::ALL.into_iter().find(|p| p.word() == protocol.1);
    let number = |word: &Word<'a>| number::<u16>(word.1).ok_or((*word, "a number below 65536"));
    Ok(Exchange {
        protocol: known.ok_or((*protocol, expected))?,
        kind: number(kind)?,
        flags: number(flags)?,
        question: Payload::read(rest)?,
        answer: RecordedReply::default(),
    })
}

fn refusal<'a>(line: usize, words: &[Word<'a>]) -> Result<Errno, RecordingFault<'a>> {
    let expected = "one error of the kernel, such as EINVAL";
    let [word] = words else {
        return Err(((line, "!"), expected));
    };
    // All that Linux has.
    let mut all = (1..=133).map(Errno::from_raw);
    let named = all.find(|errno| format!("{errno:?}") == word.1);
    named
        .filter(|e| *e != Errno::UnknownErrno)
        .ok_or((*word, expected))
}

/// Decimal, or hexadecimal after 0x.
fn number<N: TryFrom<u64>>(word: &str) -> Option<N> {
    let number = match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16)
            .ok()
            .filter(|_| !hex.starts_with('+')),
        None => word.parse().ok().filter(|_| !word.starts_with('+')),
    };
    number.and_then(|n| N::try_from(n).ok())
}

impl fmt::Display for Recording {
    /// Every payload in hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Exchange {
            protocol,
            kind,
            flags,
            question,
            answer,
        } in &self.0
        {
            write!(f, "> {} {kind:#x} {flags:#x} ", protocol.word())?;
            hexadecimal(f, question)?;
            for message in &answer.messages {
                f.write_str("< ")?;
                hexadecimal(f, message)?;
            }
            if let Some(errno) = answer.refused {
                writeln!(f, "! {errno:?}")?;
            }
        }
        Ok(())
    }
}

fn hexadecimal(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for byte in bytes {
        write!(f, "{byte:02x}")?;
    }
    f.write_str("\n")
}

/// Takes any text through the reader and checks that what was understood is written so that it reads the same.
pub(crate) fn check(data: &[u8]) {
    if let Ok(recording) = Recording::parse("any", &String::from_utf8_lossy(data)) {
        let text = recording.to_string();
        assert_eq!(Recording::parse("again", &text).ok(), Some(recording), "{text}");
    }
}

#[cfg(test)]
mod tests;
