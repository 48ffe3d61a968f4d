//! Steps for an operator: commands to paste.

use std::path::Path;

use crate::screen;
use health::view::{IncidentView, View};

/// This program's command line, so that the printed commands reach the same daemon.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    program: String,
    options: String,
}

impl Caller {
    pub(super) fn new(run_dir: Option<&Path>) -> Self {
        let program = std::env::args_os().next().unwrap_or_default();
        let program = program.to_string_lossy();
        Self::called(&program, run_dir)
    }

    /// Like [`Self::new`], with this program name.
    pub(super) fn called(program: &str, run_dir: Option<&Path>) -> Self {
        // Found through PATH, or by the path it was called with.
        let program = if program.contains('/') {
            quoted(program)
        } else {
            "nodewarden".to_owned()
        };
        let options = run_dir.map_or_else(String::new, |dir| {
            format!(" --run-dir {}", quoted(&dir.display().to_string()))
        });
        Self { program, options }
    }

    pub(super) fn order(&self, verb: &str, id: &str) -> String {
        let Self { program, options } = self;
        format!("{program} {verb} {} --reason 'TEXT'{options}", quoted(id))
    }

    /// A command that needs the GPU's driver, which nodewarden has open.
    fn release(&self, command: &str) -> String {
        let Self { program, options } = self;
        format!("{program} release nvidia{options} -- {command}")
    }
}

/// Quotes a word for a shell.
fn quoted(text: &str) -> String {
    let text = screen::clean(text);
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%,=".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Commands, each with its purpose.
pub(super) fn steps(i: &IncidentView, view: &View, caller: &Caller) -> Vec<(String, &'static str)> {
    let mut steps = Vec::new();
    if i.closed.is_some() {
        return steps;
    }
    if i.ack.is_none() {
        steps.push((caller.order("ack", &i.id), "acknowledge it; changes nothing else"));
    }
    let node = view.node.as_deref().map_or_else(|| "NODENAME".to_owned(), quoted);
    // A further reason would replace the one that stands.
    let is_drained = ["drained", "writing", "lifting", "foreign"].contains(&view.drain.state.as_str());
    // Without it new jobs keep starting, and the node is never free for the remedy.
    if !i.drains && !is_drained && matches!(i.act.as_str(), "reboot" | "reset-gpu") {
        steps.push((
            format!("scontrol update NodeName={node} State=DRAIN Reason='TEXT'"),
            "first: no new jobs start; nodewarden never lifts it: after the repair, do so yourself with State=UNDRAIN",
        ));
    }
    match i.act.as_str() {
        "reboot" => steps.push((
            format!("scontrol reboot {node}"),
            "the remedy, after jobs have ended; never with ASAP or nextstate, which can lift every drain",
        )),
        "reset-gpu" if is_nvidia(&i.subject_name) => steps.push((
            caller.release(&format!("nvidia-smi --gpu-reset -i {}", quoted(&i.subject_name))),
            "the remedy, without a job on the GPU; if nvidia-smi names other GPUs, reset them in the same command",
        )),
        "reset-gpu" if is_amd(&i.subject_name) && !i.pci.is_empty() => steps.push((
            format!("amd-smi reset --gpureset --gpu {}", quoted(&i.pci)),
            "the remedy, without a job on the GPU; GPUs linked by XGMI are reset together",
        )),
        _ => {}
    }
    steps.push((
        caller.order("clear", &i.id),
        if i.drains {
            "after the repair: closes the incident and lifts nodewarden's drain"
        } else {
            "after the repair: closes the incident"
        },
    ));
    steps
}

/// `GPU-` and a UUID, which NVIDIA's driver gives.
fn is_nvidia(name: &str) -> bool {
    name.strip_prefix("GPU-").is_some_and(|uuid| uuid.contains('-'))
}

/// `GPU-` and amdgpu's unique_id: 16 hexadecimal digits.
fn is_amd(name: &str) -> bool {
    let id = name.strip_prefix("GPU-");
    id.is_some_and(|id| id.len() == 16 && id.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The meaning of the word after `act=`.
pub(super) fn remedy(act: &str) -> &'static str {
    match act {
        "reboot" => "reboot the node, or power it off and on",
        "reset-gpu" => "reset the GPU",
        "inspect" => "find and remove the cause; the runbook has the steps",
        "none" => "no action needed",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_take_apart_are_quoted() {
        assert_eq!(quoted("/run/node-warden_1.x"), "/run/node-warden_1.x");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's $(x)\n"), r"'it'\''s $(x)'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn the_makers_name_of_a_gpu_decides_about_the_command() {
        let nvidia = "GPU-6f1c2f0e-7a4d-4c55-9b7e-3d1a8e52c0f4";
        assert!(is_nvidia(nvidia) && !is_amd(nvidia));
        assert!(is_amd("GPU-5d0e0000aa000001") && !is_nvidia("GPU-5d0e0000aa000001"));
        assert!(!is_amd("0000:05:00.0") && !is_nvidia("0000:05:00.0"));
    }

    #[test]
    fn orders_reach_the_daemon_that_was_asked() {
        let caller = Caller::called("./target/nodewarden", Some(Path::new("/tmp/a b/run")));
        assert_eq!(
            caller.order("ack", "abcdefgh"),
            "./target/nodewarden ack abcdefgh --reason 'TEXT' --run-dir '/tmp/a b/run'"
        );
        assert_eq!(
            Caller::called("nodewarden", None).order("clear", "abcdefgh"),
            "nodewarden clear abcdefgh --reason 'TEXT'"
        );
        assert_eq!(
            caller.release("nvidia-smi"),
            "./target/nodewarden release nvidia --run-dir '/tmp/a b/run' -- nvidia-smi"
        );
    }
}
