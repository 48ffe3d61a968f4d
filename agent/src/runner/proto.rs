//! Requests and replies: one line of JSON each, one of each on a connection.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::gpfs;
use crate::config::check_name;

/// Limit of the input of a command, in bytes.
pub const MAX_INPUT: usize = 64 * 1024;

/// Limit of what is kept of each output stream of a site's command, in bytes.
pub const MAX_KEPT: usize = 64 * 1024;

/// Limit of a request, in bytes: the input, and room for the name.
pub(super) const MAX_REQUEST: usize = MAX_INPUT + 256;

/// Limit of a reply, in bytes: a byte of output is 6 in JSON at most.
pub(super) const MAX_REPLY: u64 = 6 * (gpfs::MAX_KEPT + MAX_KEPT) as u64 + 4096;

/// A request: a name, never an argument.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The command, as in `[commands.NAME]`.
    pub name: String,
    /// Its standard input.
    pub input: Box<RawValue>,
}

impl Request {
    /// Reads and checks a request.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        if line.len() > MAX_REQUEST {
            return Err(format!("request longer than {MAX_REQUEST} bytes"));
        }
        let request: Self = serde_json::from_slice(line).map_err(|e| format!("invalid request: {e}"))?;
        check_name(&request.name)?;
        if request.input.get().len() > MAX_INPUT {
            return Err(format!("input longer than {MAX_INPUT} bytes"));
        }
        Ok(request)
    }
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// It ended.
    Ended {
        /// Its exit code.
        code: i32,
        /// The begin of its standard output.
        stdout: String,
        /// The begin of its standard error.
        stderr: String,
        /// Either was longer.
        truncated: bool,
    },
    /// It was started, and gave no result: signal, no such program.
    Failed(String),
    /// It did not end within its time limit.
    TimedOut(String),
    /// It was not started.
    Refused(String),
}

impl Reply {
    /// Keeps up to `most` bytes of the standard output.
    pub(super) fn ended(output: &sys::spawn::CommandOutput, most: usize) -> Self {
        let text = |bytes: &[u8], most| {
            let kept = bytes.get(..most).unwrap_or(bytes);
            String::from_utf8_lossy(kept).into_owned()
        };
        Self::Ended {
            code: output.code,
            stdout: text(&output.stdout, most),
            stderr: text(&output.stderr, MAX_KEPT),
            truncated: output.truncated || output.stdout.len() > most || output.stderr.len() > MAX_KEPT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_a_name_and_an_input_and_nothing_else() {
        let parse = |text: &str| Request::parse(text.as_bytes());
        let good = parse(r#"{"name":"notify","input":{"a":[1, 2]}}"#).unwrap();
        assert_eq!(
            (good.name.as_str(), good.input.get()),
            ("notify", r#"{"a":[1, 2]}"#)
        );
        for bad in [
            "",
            "x",
            r#"{"name":"notify"}"#,
            r#"{"name":"notify","input":1,"args":["-x"]}"#,
            r#"{"name":"/bin/sh","input":1}"#,
            r#"{"name":"a b","input":1}"#,
            r#"{"name":"../x","input":1}"#,
            r#"{"name":"","input":1}"#,
            r#"{"name":"Notify","input":1}"#,
            r#"{"name":"notify","input":{]}}"#,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let name = "a".repeat(41);
        assert!(parse(&format!(r#"{{"name":"{name}","input":1}}"#)).is_err());
        for (length, fits) in [
            (MAX_INPUT - 2, true),
            (MAX_INPUT - 1, false),
            (MAX_INPUT * 2, false),
        ] {
            let input = "x".repeat(length);
            let request = format!(r#"{{"name":"notify","input":"{input}"}}"#);
            assert_eq!(parse(&request).is_ok(), fits, "{length}");
        }
    }

    #[test]
    fn output_is_cut_and_every_reply_fits() {
        for most in [MAX_KEPT, gpfs::MAX_KEPT] {
            let output = sys::spawn::CommandOutput {
                code: 0,
                stdout: vec![1; most + 1],
                stderr: vec![1; MAX_KEPT],
                truncated: false,
            };
            let reply = Reply::ended(&output, most);
            let Reply::Ended {
                stdout, truncated, ..
            } = &reply
            else {
                panic!("{reply:?}")
            };
            assert!(*truncated && stdout.len() == most);
            let text = serde_json::to_string(&reply).unwrap();
            assert!((text.len() as u64) < MAX_REPLY);
        }
    }
}
