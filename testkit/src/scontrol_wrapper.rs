//! Wrapper scripts for scontrol and sinfo that record every call and inject faults.
//!
//! Faults can change while the daemon runs: each is a file that the script reads at every call.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::{executable, proc};

/// The calls that a fault affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// `scontrol update`.
    Update,
    /// `scontrol create`.
    Create,
    /// All other calls, and sinfo.
    Show,
}

/// What happens in place of the real call, or before or after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing: the real scontrol answers.
    None,
    /// Never ends.
    Hang,
    /// Ends with this code after this message on stderr.
    Fail(u8, String),
    /// Prints garbage and exits with 0.
    Garbage,
    /// Exits with 0 and does nothing.
    Lie,
    /// Runs this shell command, then the real scontrol: a change by an administrator between our read and our write.
    Before(String),
    /// Runs the real scontrol, then this shell command.
    After(String),
    /// Runs the real scontrol as this user.
    User(u32),
    /// Waits, then runs the real scontrol.
    Slow(Duration),
    /// The real answer with another node's name in place of `from`.
    WrongNode {
        /// The name to replace.
        from: String,
        /// The name to print.
        to: String,
    },
}

/// One recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Arguments without the program's name.
    pub args: Vec<String>,
    /// The whole environment, as `KEY=value`.
    pub env: Vec<String>,
    /// Effective uid of the caller.
    pub uid: u32,
}

impl Call {
    /// Whether it is an `scontrol update`.
    pub fn is_update(&self) -> bool {
        self.args
            .iter()
            .find(|a| !a.starts_with('-'))
            .is_some_and(|verb| verb.eq_ignore_ascii_case("update"))
    }
}

/// The script in its own folder. Dropping it ends hanging calls.
#[derive(Debug)]
pub struct ScontrolWrapper {
    dir: TempDir,
}

impl ScontrolWrapper {
    /// Writes the wrapper script for `real`.
    pub fn new(real: impl AsRef<Path>) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("scontrol-").tempdir()?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        let wrapper = Self { dir };
        fs::create_dir(wrapper.calls_dir())?;
        fs::set_permissions(wrapper.calls_dir(), fs::Permissions::from_mode(0o1777))?;
        let never = wrapper.dir.path().join("never");
        nix::unistd::mkfifo(&never, nix::sys::stat::Mode::from_bits_truncate(0o666))?;
        fs::set_permissions(never, fs::Permissions::from_mode(0o666))?;
        for on in [On::Update, On::Create, On::Show] {
            wrapper.set(on, Fault::None)?;
        }
        wrapper.set_call("")?;
        let real = real.as_ref().canonicalize().context("the real scontrol")?;
        for (name, real) in [
            ("scontrol", real.clone()),
            ("sinfo", real.with_file_name("sinfo")),
        ] {
            let text = SCRIPT
                .replace("@DIR@", &quote(&wrapper.dir.path().display().to_string()))
                .replace("@REAL@", &quote(&real.display().to_string()));
            executable::write(&wrapper.dir.path().join(name), &text)?;
        }
        Ok(wrapper)
    }

    /// The script.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("scontrol")
    }

    /// The script's folder, to put first in PATH.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn calls_dir(&self) -> PathBuf {
        self.dir.path().join("calls")
    }

    /// Sets the fault of these calls.
    pub fn set(&self, on: On, fault: Fault) -> Result<()> {
        let name = match on {
            On::Update => "on-update",
            On::Create => "on-create",
            On::Show => "on-show",
        };
        self.write(name, &self.render(&fault))
    }

    /// The fault of one call: the `nth` from now on, from 1, of those whose arguments contain these words. The others have
    /// the fault of their kind.
    pub fn set_at(&self, words: &str, nth: usize, fault: Fault) -> Result<()> {
        let count = self.dir.path().join("count");
        fs::write(&count, "")?;
        fs::set_permissions(&count, fs::Permissions::from_mode(0o666))?;
        let (words, fault) = (quote(words), self.render(&fault));
        self.set_call(&format!(
            "case \" $* \" in *{words}*)\necho >>\"$dir/count\"\nif [ $(wc -l <\"$dir/count\") -eq {nth} ]; then\n{fault}fi\n;; esac\n"
        ))
    }

    fn set_call(&self, text: &str) -> Result<()> {
        self.write("on-call", text)
    }

    /// Atomically, so that a concurrent call reads the old or the new fault.
    fn write(&self, name: &str, text: &str) -> Result<()> {
        let file = self.dir.path().join(name);
        let new = file.with_extension("new");
        fs::write(&new, text)?;
        fs::rename(new, file)?;
        Ok(())
    }

    /// Ends every fault.
    pub fn set_none(&self) -> Result<()> {
        for on in [On::Update, On::Create, On::Show] {
            self.set(on, Fault::None)?;
        }
        self.set_call("")
    }

    fn render(&self, fault: &Fault) -> String {
        match fault {
            Fault::None => String::new(),
            Fault::Hang => {
                // The script itself waits, so that its arguments identify it. No process writes to the FIFO.
                "read -r _ <>\"$dir/never\"\n".into()
            }
            Fault::Fail(code, message) => format!("echo {} >&2; exit {code}\n", quote(message)),
            Fault::Garbage => "printf 'NodeName=\\377\\001 State\\n=\\n}{'; exit 0\n".into(),
            Fault::Lie => "exit 0\n".into(),
            Fault::Before(command) => format!("( {command} ) >/dev/null 2>&1 </dev/null\n"),
            Fault::After(command) => {
                format!("\"$real\" \"$@\"; code=$?; ( {command} ) >/dev/null 2>&1 </dev/null; exit $code\n")
            }
            Fault::User(uid) => {
                format!("exec setpriv --reuid={uid} --clear-groups \"$real\" \"$@\"\n")
            }
            Fault::Slow(time) => format!("sleep {}\n", time.as_secs_f64()),
            Fault::WrongNode { from, to } => format!("\"$real\" \"$@\" | sed 's/{from}/{to}/g'; exit 0\n"),
        }
    }

    /// All calls so far, oldest first. A call is recorded before it has any effect.
    pub fn calls(&self) -> Result<Vec<Call>> {
        let mut files: Vec<PathBuf> = fs::read_dir(self.calls_dir())?
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.extension().is_some_and(|e| e == "args"))
            .collect();
        files.sort();
        let strings = |file: &Path| -> Result<Vec<String>> {
            let bytes = fs::read(file)?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Ok(text.split_terminator('\0').map(str::to_owned).collect())
        };
        files
            .iter()
            .map(|file| {
                Ok(Call {
                    // "sh", the script, then the caller's arguments.
                    args: strings(file)?.split_off(2),
                    env: strings(&file.with_extension("env"))?,
                    uid: fs::read_to_string(file.with_extension("uid"))?.trim().parse()?,
                })
            })
            .collect()
    }

    /// The calls of `scontrol update`.
    pub fn updates(&self) -> Result<Vec<Call>> {
        Ok(self.calls()?.into_iter().filter(Call::is_update).collect())
    }

    /// Deletes the recorded calls.
    pub fn forget(&self) -> Result<()> {
        for entry in fs::read_dir(self.calls_dir())?.flatten() {
            fs::remove_file(entry.path())?;
        }
        Ok(())
    }
}

impl Drop for ScontrolWrapper {
    fn drop(&mut self) {
        let scripts = ["scontrol", "sinfo"].map(|name| self.dir.path().join(name).display().to_string());
        for stat in proc::all() {
            if proc::cmdline(stat.pid).is_ok_and(|args| args.get(1).is_some_and(|arg| scripts.contains(arg)))
            {
                stat.signal(Signal::SIGKILL);
            }
        }
    }
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// /proc has the original arguments and environment, before the shell adds its own. The script renames the `.args` file
/// last, so that a visible call is complete. File names sort by time.
const SCRIPT: &str = r#"#!/bin/sh
dir=@DIR@ real=@REAL@ me=$$
PATH=/usr/bin:/bin:/usr/sbin:/sbin
call=$dir/calls/$(date +%s%N).$me
cat /proc/$me/environ >"$call.env"
id -u >"$call.uid"
cat /proc/$me/cmdline >"$call.tmp"
mv "$call.tmp" "$call.args"
on=on-show
for word; do
    case $word in
    -*) ;;
    [Uu][Pp][Dd][Aa][Tt][Ee]) on=on-update; break ;;
    [Cc][Rr][Ee][Aa][Tt][Ee]) on=on-create; break ;;
    *) break ;;
    esac
done
. "$dir/on-call"
. "$dir/$on"
exec "$real" "$@"
"#;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::exec::{Output, run};
    use crate::wait::PATIENCE;

    /// Prints its arguments, one a line.
    fn real(dir: &Path) -> PathBuf {
        let file = dir.join("real");
        executable::write(&file, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
        file
    }

    fn call(wrapper: &ScontrolWrapper, args: &[&str]) -> Output {
        let mut command = Command::new(wrapper.path());
        command.args(args).env_clear().env("SLURM_CONF", "/a b");
        run(command, b"", PATIENCE).unwrap()
    }

    #[test]
    fn records_calls_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let wrapper = ScontrolWrapper::new(real(dir.path())).unwrap();
        assert_eq!(call(&wrapper, &["show", "node", "n0"]).stdout, "show\nnode\nn0\n");
        let reason = "Reason=it's \"odd\"\n$(x)";
        assert_eq!(
            call(&wrapper, &["-Q", "Update", "NodeName=n0", reason])
                .stdout
                .lines()
                .count(),
            5
        );
        let calls = wrapper.calls().unwrap();
        assert_eq!(calls.len(), 2);
        assert_eq!(calls[0].args, ["show", "node", "n0"]);
        assert_eq!(
            (calls[0].env.as_slice(), calls[0].uid),
            (&["SLURM_CONF=/a b".to_owned()][..], 0)
        );
        let updates = wrapper.updates().unwrap();
        assert_eq!((updates.len(), updates[0].args[3].as_str()), (1, reason));
        wrapper.forget().unwrap();
        assert!(wrapper.calls().unwrap().is_empty());
    }

    #[test]
    fn injects_each_fault() {
        let dir = tempfile::tempdir().unwrap();
        let wrapper = ScontrolWrapper::new(real(dir.path())).unwrap();
        let update = ["update", "NodeName=n0", "State=DRAIN"];
        let on = |fault| wrapper.set(On::Update, fault).unwrap();
        on(Fault::Fail(1, "it's down".into()));
        let output = call(&wrapper, &update);
        assert_eq!(
            (output.code, output.stderr.as_str(), output.stdout.as_str()),
            (Some(1), "it's down\n", "")
        );
        assert_eq!(call(&wrapper, &["show"]).stdout, "show\n");
        on(Fault::Lie);
        assert_eq!(call(&wrapper, &update).stdout, "");
        on(Fault::Garbage);
        assert!(call(&wrapper, &update).stdout.contains('\u{fffd}'));
        let mark = dir.path().join("mark");
        on(Fault::Before(format!("echo admin > {}", mark.display())));
        assert_eq!(
            call(&wrapper, &update).stdout,
            "update\nNodeName=n0\nState=DRAIN\n"
        );
        assert_eq!(fs::read_to_string(&mark).unwrap(), "admin\n");
        on(Fault::After(format!("echo later > {}", mark.display())));
        assert_eq!(call(&wrapper, &update).stdout.lines().count(), 3);
        assert_eq!(fs::read_to_string(&mark).unwrap(), "later\n");
        on(Fault::WrongNode {
            from: "n0".into(),
            to: "n7".into(),
        });
        assert!(call(&wrapper, &update).stdout.contains("NodeName=n7"));
        on(Fault::User(65534));
        assert_eq!(call(&wrapper, &["create", "x"]).stdout, "create\nx\n");
        if nix::unistd::geteuid().is_root() {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
            executable::write(&dir.path().join("real"), "#!/bin/sh\nid -u\n").unwrap();
            assert_eq!(call(&wrapper, &update).stdout, "65534\n");
        }
        on(Fault::Slow(Duration::from_millis(50)));
        let start = std::time::Instant::now();
        call(&wrapper, &update);
        assert!(start.elapsed() >= Duration::from_millis(50));
        let root = usize::from(nix::unistd::geteuid().is_root());
        assert_eq!(wrapper.updates().unwrap().len(), 7 + root);
    }

    #[test]
    fn one_call_has_a_fault_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let wrapper = ScontrolWrapper::new(real(dir.path())).unwrap();
        wrapper.set(On::Create, Fault::Lie).unwrap();
        wrapper
            .set_at("show node", 2, Fault::Fail(7, "now".into()))
            .unwrap();
        let show = || ["node", "partition", "node", "node"].map(|of| call(&wrapper, &["show", of]).code);
        assert_eq!(show(), [Some(0), Some(0), Some(7), Some(0)]);
        assert_eq!(call(&wrapper, &["create"]).stdout, "");
        wrapper.set_none().unwrap();
        assert_eq!(show(), [Some(0); 4]);
        assert_eq!(call(&wrapper, &["create"]).stdout, "create\n");
    }

    #[test]
    fn a_hanging_call_ends_with_the_wrapper() {
        let dir = tempfile::tempdir().unwrap();
        let wrapper = ScontrolWrapper::new(real(dir.path())).unwrap();
        wrapper.set(On::Show, Fault::Hang).unwrap();
        let mut child = Command::new(wrapper.path())
            .args(["show", "node"])
            .spawn()
            .unwrap();
        crate::wait::until_true("call", PATIENCE, || wrapper.calls().is_ok_and(|c| c.len() == 1)).unwrap();
        assert!(child.try_wait().unwrap().is_none());
        drop(wrapper);
        child.wait().unwrap();
    }
}
