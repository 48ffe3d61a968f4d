//! `nodewarden status --watch`: refreshes the page in place on a terminal, else prints block after block.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{now, of, show};
use crate::cli::client::{self, Unreachable};
use crate::http::control::{Reply, Request};
use crate::screen::{self, Colour, Paint, Screen};
use sys::poll::Poll;
use sys::signals::{Signal, SignalReader};
use sys::terminal;

/// Time-out of a reply: Ctrl-C has no effect during the wait.
const PATIENCE: Duration = Duration::from_secs(3);

/// Enters the alternate screen and hides the cursor; and the reverse.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Shows the status until Ctrl-C, or until the reader of the output is gone.
pub(super) fn watch(dir: &Path, seconds: u64, colour: Colour) -> anyhow::Result<ExitCode> {
    // Signals arrive on a descriptor, so that the terminal is always restored.
    let signals = SignalReader::block()?;
    let in_place = is_in_place();
    if in_place && !screen::write(ENTER)? {
        return Ok(ExitCode::SUCCESS);
    }
    let result = redraw(dir, Duration::from_secs(seconds), colour, in_place, &signals);
    if in_place {
        // A failure means that the terminal is gone.
        sys::ignore(screen::write(LEAVE));
    }
    result.map(|()| ExitCode::SUCCESS)
}

/// Whether the page can be refreshed in place.
fn is_in_place() -> bool {
    let out = io::stdout();
    let can = std::env::var_os("TERM").is_some_and(|t| t != "dumb");
    can && out.is_terminal() && terminal::size(&out).is_some()
}

fn redraw(
    dir: &Path,
    period: Duration,
    colour: Colour,
    in_place: bool,
    signals: &SignalReader,
) -> anyhow::Result<()> {
    let mut poll = Poll::new()?;
    poll.add(signals, 0)?;
    loop {
        let begin = Instant::now();
        // Read again each time: the terminal's size may have changed.
        let screen = Screen::now(colour);
        let page = page(client::ask_within(dir, &Request::Status, PATIENCE), dir, &screen);
        let time = screen::time(Timestamp::now().as_second());
        let text = if in_place {
            over(&page, &time, period, &screen)
        } else {
            format!("--- {time}\n{page}\n")
        };
        if !screen::write(&text)? {
            return Ok(());
        }
        loop {
            let left = period.saturating_sub(begin.elapsed());
            if !poll.wait(Some(left))?.is_empty() && stopped(signals)? {
                return Ok(());
            }
            if left.is_zero() {
                break;
            }
        }
    }
}

fn stopped(signals: &SignalReader) -> io::Result<bool> {
    while let Some(signal) = signals.next()? {
        // A closed terminal ends it too.
        if matches!(signal, Signal::Stop | Signal::Reload) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The status, or why it is unavailable.
fn page(reply: Result<Reply, Unreachable>, dir: &Path, screen: &Screen) -> String {
    let down = match reply.map(of) {
        Ok(Some(status)) => return show::show(&status, now(), screen),
        Ok(None) => Unreachable::odd(dir),
        Err(down) => down,
    };
    let mut out = String::new();
    for line in screen::wrapped(&down.to_string(), screen.width) {
        out.push_str(&screen.paint(Paint::Bad, &line));
        out.push('\n');
    }
    out.push_str("waiting for the daemon; Ctrl-C to quit\n");
    out
}

/// Replaces the page without flicker: overwrites each line, then clears its rest.
fn over(page: &str, time: &str, period: Duration, screen: &Screen) -> String {
    let title = format!("{time}, every {} s, Ctrl-C to quit", period.as_secs());
    let title = screen.paint(Paint::Faint, &screen::cut(&title, screen.width));
    let all: Vec<&str> = std::iter::once(title.as_str())
        .chain(std::iter::once(""))
        .chain(page.lines())
        .collect();
    // More lines than the terminal has would scroll it.
    let room = screen.height.unwrap_or(usize::MAX).max(2);
    let hidden = all.len().saturating_sub(room);
    let shown = if hidden == 0 { all.len() } else { room - 1 };
    let mut out = String::from("\x1b[H");
    for (at, line) in all.iter().take(shown).enumerate() {
        out.push_str(if at == 0 { "" } else { "\r\n" });
        out.push_str(line);
        out.push_str("\x1b[K");
    }
    if hidden > 0 {
        let more = screen::cut(&format!("... {} more lines", all.len() - shown), screen.width);
        // Writing to a `String` cannot fail.
        sys::ignore(write!(out, "\r\n{}\x1b[K", screen.paint(Paint::Faint, &more)));
    }
    out.push_str("\x1b[J");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::screen::PLAIN;

    #[test]
    fn a_page_is_drawn_over_the_one_before_line_by_line() {
        let text = over("one\ntwo\n", "now", Duration::from_secs(2), &PLAIN);
        assert_eq!(
            text,
            "\x1b[Hnow, every 2 s, Ctrl-C to quit\x1b[K\r\n\x1b[K\r\none\x1b[K\r\ntwo\x1b[K\x1b[J"
        );
        assert!(!text.contains("\x1b[2J"), "clearing the whole screen flickers");
    }

    #[test]
    fn a_page_longer_than_the_terminal_does_not_scroll_it() {
        let page = "line\n".repeat(50);
        for height in [1, 2, 5, 51, 52, 60] {
            let screen = Screen {
                height: Some(height),
                ..PLAIN
            };
            let text = over(&page, "now", Duration::from_secs(2), &screen);
            let lines = text.split("\r\n").count();
            assert!(lines <= height.max(2), "{height}: {lines}");
            assert_eq!(text.contains("more lines"), height < 52, "{height}");
        }
    }

    #[test]
    fn a_daemon_that_is_gone_is_said_to_be_and_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let reply = client::ask(dir.path(), &Request::Status);
        let text = page(reply, dir.path(), &PLAIN);
        assert!(text.contains("no such socket"), "{text}");
        assert!(
            text.ends_with("waiting for the daemon; Ctrl-C to quit\n"),
            "{text}"
        );
    }
}
