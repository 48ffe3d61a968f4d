//! `nodewarden config`: checks the daemon's configuration, prints an example.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use jiff::tz::TimeZone;

use super::cluster::Cluster;
use super::screen;
use crate::config::{Config, DEFAULT_FILE, Read, keys, nhc, render_default};
use crate::http::control::users;
use crate::http::without_address;
use crate::parent::slurm::here;
use crate::parent::slurm::write::Slurm;
use crate::web;
use collectors::settings::duration;
use health::Mode;
use health::checks::{Scope, Version};
use health::settings::Command;
use model::scheduler::LookError;
use slurm::guard::reservation;
use sys::files;

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub(super) enum ConfigCommand {
    /// Check the configuration as the daemon reads it; exit 1 with every error.
    Check {
        /// Configuration file; `conf.d/*.toml` beside it are read too. Default: /etc/nodewarden/nodewarden.toml, if it exists.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Set one key to a TOML value; repeatable.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Print an example file: every key with its meaning and default.
    Example,
}

/// Runs the subcommand.
pub(super) fn config(command: &ConfigCommand) -> anyhow::Result<ExitCode> {
    match command {
        ConfigCommand::Check { config, set } => match crate::config::read(config.as_deref(), set) {
            Ok(read) => {
                let faults = files_of_nhc(&read.loaded.config);
                if !faults.is_empty() {
                    screen::complain(&faults.join("\n"));
                    return Ok(ExitCode::FAILURE);
                }
                if let Err(faults) = web::of(&read.loaded.config) {
                    screen::complain(&faults);
                    return Ok(ExitCode::FAILURE);
                }
                let config = &read.loaded.config;
                let warnings = missing_addresses(config)
                    + &refused_commands(&read)
                    + &unknown_operators(config)
                    + &taken_uids()
                    + &early_baseline(config);
                let (node, slots) = (prove_node(config), try_slot(config));
                Ok(screen::tell(
                    &format!("{}{warnings}{node}{slots}", summary(&read)),
                    ExitCode::SUCCESS,
                ))
            }
            Err(problems) => {
                screen::complain(&problems);
                Ok(ExitCode::FAILURE)
            }
        },
        ConfigCommand::Example => screen::print(&render_default(), ExitCode::SUCCESS),
    }
}

/// What NHC's own files set against the arguments of the site's commands. Only here: a file of NHC must not keep nodewarden from
/// starting. The runner looks again before each run.
fn files_of_nhc(config: &Config) -> Vec<String> {
    let commands = config.health_commands.iter();
    let faults = commands.filter_map(|row| {
        let command = &config.commands.get(&row.command)?.command;
        let why = nhc::check_files(Path::new("/"), command).err()?;
        Some(format!("health.command {:?}: {why}", row.check.name))
    });
    faults.collect()
}

/// A warning for each file and program of the configuration for which the runner would refuse commands, or that cannot be executed
/// here. No error: the file may be for another node, or the program on a filesystem that is not mounted yet.
fn refused_commands(read: &Read) -> String {
    let config = &read.loaded.config;
    let files = read.files.iter().filter(|_| config.needs_runner());
    let files = files.filter_map(|file| {
        let why = files::is_trusted(file).err()?;
        Some(format!(
            "warning: {}: {why}; every command would be refused\n",
            file.display()
        ))
    });
    let commands = config.commands.iter().filter_map(|(name, row)| {
        let program = Path::new(row.command.first()?);
        let found = files::is_program(program).and_then(|()| files::is_trusted_program(program));
        warning(&format!("commands.{name}.command"), program, found)
    });
    let scontrol = config.slurm.scontrol.iter();
    let scontrol = scontrol.filter_map(|path| warning("slurm.scontrol", path, files::is_program(path)));
    files.chain(commands).chain(scontrol).collect()
}

fn warning(key: &str, program: &Path, found: io::Result<()>) -> Option<String> {
    let error = found.err()?;
    let program = program.display();
    let why = match error.kind() {
        io::ErrorKind::NotFound => format!("{program} does not exist on this node"),
        _ => format!("{program}: {error}"),
    };
    Some(format!("warning: {key}: {why}\n"))
}

/// A warning for each operator that is named, and that this node's /etc/passwd lacks.
fn unknown_operators(config: &Config) -> String {
    let unknown = users::unknown(&config.health.operators);
    let warning = |name: &String| {
        format!(
            "warning: health.operators: found {name:?}, expected a name of {} or a uid: no user of a directory server has a \
             name here\n",
            users::PASSWD
        )
    };
    unknown.into_iter().map(warning).collect()
}

/// A warning for each user of /etc/passwd with the uid of one of nodewarden's processes.
fn taken_uids() -> String {
    let taken = sys::users::taken().into_iter();
    taken.map(|user| format!("warning: {user}\n")).collect()
}

/// A warning for a `health.baseline` above this program's version: checks of later versions would act from their first day.
fn early_baseline(config: &Config) -> String {
    let ours = env!("CARGO_PKG_VERSION");
    let baseline = config.health.baseline.as_deref();
    let above = baseline.filter(|text| Version::parse(text) > Version::parse(ours));
    let warning = above.map(|text| {
        format!(
            "warning: health.baseline: found {text:?}, expected at most {ours}, this version: new checks would act from \
             the upgrade that brings them\n"
        )
    });
    warning.unwrap_or_default()
}

/// A warning for each interface and network of `listen` without an address here. No error, as above: it may come later.
fn missing_addresses(config: &Config) -> String {
    let missing = match without_address(&config.listen) {
        Ok(missing) => missing,
        Err(error) => vec![format!("cannot list interfaces: {error}")],
    };
    missing
        .iter()
        .map(|why| format!("warning: listen: {why}\n"))
        .collect()
}

/// Reads the node of this machine as the daemon does before it writes: a wrong name is known before the first fault.
fn prove_node(config: &Config) -> String {
    if config.health.mode == Mode::Observe {
        return String::new();
    }
    let mut slurm = Slurm::new(config.slurm.clone(), here::hostname(), here::boot_time());
    match slurm.look() {
        Ok(node) => format!("Slurm node: {} is this machine\n", node.name),
        Err(LookError::NotHere(why)) => format!("Slurm node: not read: {}\n", screen::clean(&why)),
        Err(error) => format!(
            "Slurm node: nothing would be written: {}\n",
            screen::clean(&error.to_string())
        ),
    }
}

/// Creates, lists and deletes a reservation as drains need it, where drains are on: a missing permission or a list that
/// cannot be read is known before the first fault.
fn try_slot(config: &Config) -> String {
    if config.health.mode != Mode::Drain || !config.slurm.guard.on {
        return String::new();
    }
    if !nix::unistd::geteuid().is_root() {
        return "drain slots: not tried, because only root can\n".to_owned();
    }
    let mut cluster = Cluster::find(config.slurm.clone());
    let Some(node) = cluster.node().map(str::to_owned) else {
        return "drain slots: not tried, because the node is not known\n".to_owned();
    };
    let name = format!("{}probe-{node}", reservation::PREFIX);
    let window = Duration::from_secs(60);
    // One that was left by an earlier try.
    cluster.run(reservation::delete(&name)).ok();
    let tried = cluster
        .run(reservation::create(&name, window, &node))
        .and_then(|_| {
            let listed = cluster.run(reservation::show());
            cluster.run(reservation::delete(&name))?;
            let text = listed?.stdout;
            Ok(reservation::ours(
                &String::from_utf8_lossy(&text),
                &TimeZone::UTC,
            )?)
        });
    match tried {
        Ok(_) => "drain slots: Slurm creates, lists and deletes reservations\n".to_owned(),
        Err(error) => format!(
            "drain slots: every drain would be held: {}\n",
            screen::chain(&error)
        ),
    }
}

fn summary(read: &Read) -> String {
    let config = &read.loaded.config;
    let mut out = String::from("the configuration is valid\n");
    if read.files.is_empty() {
        out.push_str(&format!("no {DEFAULT_FILE}: all keys have their defaults\n"));
    }
    for file in &read.files {
        out.push_str(&format!("read {}\n", file.display()));
    }
    let listen: Vec<String> = config.listen.iter().map(ToString::to_string).collect();
    out.push_str(&format!("listen: {}\n", listen.join(", ")));
    out.push_str(match config.health.mode {
        Mode::Observe => "mode: observe; nodewarden sets no drain, and lifts only its own earlier ones\n",
        Mode::Comment => "mode: comment; nodewarden writes the node's Comment\n",
        Mode::Drain => "mode: drain; nodewarden may drain this node\n",
    });
    for (check, mode) in &config.health.checks {
        let word = (*mode).min(config.health.mode).word();
        let capped = if *mode > config.health.mode {
            " (limited by health.mode)"
        } else {
            ""
        };
        out.push_str(&format!("check {check}: {word}{capped}\n"));
    }
    for row in &config.health_commands {
        let check = &row.check;
        let scope = match check.scope {
            Scope::Node => "node",
            Scope::Shared => "shared",
        };
        out.push_str(&format!(
            "site check {}{}: command {} every {}, scope {scope}, {}\n",
            Command::PREFIX,
            check.name,
            row.command,
            duration::show(check.every),
            check.mode.min(config.health.mode).word()
        ));
    }
    for key in keys() {
        if let Some(place) = read.set.get(key.name) {
            out.push_str(&format!("{}: set in {place}\n", key.name));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Loaded, Place};

    #[test]
    fn the_summary_says_what_is_in_force() {
        let mut config = Config::default();
        config.health.checks.insert("gpu_xid".to_owned(), Mode::Drain);
        let place = Place {
            source: "n.toml".to_owned(),
            line: 3,
            column: 9,
        };
        let text = summary(&Read {
            loaded: Loaded { config, xids: None },
            settings: collectors::Settings::default(),
            files: Vec::new(),
            set: [("rdma.exclude", place)].into(),
        });
        assert!(text.contains("rdma.exclude: set in n.toml:3:9\n"), "{text}");
        assert!(text.contains("mode: observe"), "{text}");
        assert!(
            text.contains("check gpu_xid: observe (limited by health.mode)"),
            "{text}"
        );
    }

    #[test]
    fn site_checks_are_listed_and_missing_programs_are_named() {
        let text = "[commands.here]\ncommand = [\"/bin/sh\"]\ntimeout = \"30s\"\n\
                    [commands.gone]\ncommand = [\"/opt/site/check-gone\", \"-q\"]\ntimeout = \"30s\"\n\
                    [[health.command]]\nname = \"disk\"\ncommand = \"gone\"\nevery = \"10m\"\nscope = \"node\"\nmode = \"drain\"\n\
                    [slurm]\nscontrol = \"/opt/slurm/bin/no-scontrol\"\n";
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        io::Write::write_all(&mut file.as_file(), text.as_bytes()).unwrap();
        let read = crate::config::read(Some(file.path()), &[]).unwrap();
        let found = summary(&read);
        assert!(
            found.contains("site check site-disk: command gone every 10m, scope node, observe\n"),
            "{found}"
        );
        assert_eq!(
            refused_commands(&read),
            "warning: commands.gone.command: /opt/site/check-gone does not exist on this node\n\
             warning: slurm.scontrol: /opt/slurm/bin/no-scontrol does not exist on this node\n"
        );
    }

    #[test]
    #[allow(
        clippy::disallowed_methods,
        reason = "tests write the programs that they name"
    )]
    fn files_and_programs_whose_commands_would_be_refused_are_named() {
        use std::fs;
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let put = |name: &str, text: &str, mode: u32| {
            fs::write(path(name), text).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        put("good", "", 0o755);
        put("open", "", 0o777);
        put("plain", "", 0o644);
        let row =
            |name: &str, at: &Path| format!("[commands.{name}]\ncommand = [{at:?}]\ntimeout = \"30s\"\n");
        let mut text = format!("[slurm]\nscontrol = {:?}\n", dir.path());
        for name in ["good", "open", "plain"] {
            text += &row(name, &path(name));
        }
        text += &row("folder", dir.path());
        put("n.toml", &text, 0o664);
        let read = crate::config::read(Some(&path("n.toml")), &[]).unwrap();
        let found = refused_commands(&read).replace(&format!("{}", dir.path().display()), "DIR");
        let owner = nix::unistd::geteuid();
        assert_eq!(
            found,
            format!(
                "warning: DIR/n.toml: DIR/n.toml has owner {owner} and mode 664, expected owner 0 and no write permission for group and others; every command would be refused\n\
                 warning: commands.folder.command: DIR: found a folder with mode 755, expected a file that may be executed\n\
                 warning: commands.open.command: DIR/open: DIR/open has owner {owner} and mode 777, expected owner 0 and no write permission for group and others\n\
                 warning: commands.plain.command: DIR/plain: found a file with mode 644, expected a file that may be executed\n\
                 warning: slurm.scontrol: DIR: found a folder with mode 755, expected a file that may be executed\n"
            )
        );
        // Without a command no file needs to be trusted.
        put("n.toml", "[health]\nmode = \"observe\"\n", 0o664);
        let read = crate::config::read(Some(&path("n.toml")), &[]).unwrap();
        assert_eq!(refused_commands(&read), "");
    }

    #[test]
    fn an_operator_that_etc_passwd_lacks_is_named() {
        let mut config = Config::default();
        config.health.operators = ["root", "10017", "no-such-user"].map(str::to_owned).to_vec();
        let found = unknown_operators(&config);
        assert!(
            found.starts_with(
                "warning: health.operators: found \"no-such-user\", expected a name of /etc/passwd"
            ) && found.lines().count() == 1,
            "{found}"
        );
    }

    #[test]
    fn a_baseline_above_this_version_is_named() {
        let mut config = Config::default();
        for fits in [None, Some("0.1"), Some(env!("CARGO_PKG_VERSION"))] {
            config.health.baseline = fits.map(str::to_owned);
            assert_eq!(early_baseline(&config), "");
        }
        config.health.baseline = Some("99.0".to_owned());
        let found = early_baseline(&config);
        assert!(
            found.starts_with("warning: health.baseline: found \"99.0\", expected at most"),
            "{found}"
        );
    }

    #[test]
    fn entries_of_listen_without_an_address_are_named() {
        let set = "listen=[\"127.0.0.1:1\", \"127.0.0.0/8:1\", \"no-such-host:1\", \"255.255.255.255/32:1\"]"
            .to_owned();
        let read = crate::config::read(Some(Path::new("/dev/null")), &[set]).unwrap();
        assert_eq!(
            missing_addresses(&read.loaded.config),
            "warning: listen: no-such-host:1: no interface no-such-host with an address; host names are not resolved\n\
             warning: listen: 255.255.255.255/32:1: no such local address\n"
        );
    }
}
