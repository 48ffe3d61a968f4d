use clap::ValueEnum;

use super::*;

/// The public commands.
const COMMANDS: [&str; 10] = [
    "nodewarden-run",
    "nodewarden-check",
    "nodewarden-status",
    "nodewarden-why",
    "nodewarden-ack",
    "nodewarden-clear",
    "nodewarden-metrics",
    "nodewarden-config",
    "nodewarden-config-check",
    "nodewarden-completions",
];

#[test]
fn every_shell_completes_what_people_may_type_and_nothing_else() {
    for shell in Shell::value_variants() {
        let script = script(*shell);
        for word in ["status", "why", "run-dir", "watch", "color", "completions"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        // clap_complete offers hidden options too; only test builds have any.
        assert!(
            cfg!(feature = "testing") || !script.contains("boottime"),
            "{shell}"
        );
    }
    let shown = visible();
    for hidden in ["worker", "daemon", "man"] {
        assert!(Cli::command().find_subcommand(hidden).is_some(), "{hidden}");
        assert!(shown.find_subcommand(hidden).is_none(), "{hidden}");
    }
}

#[test]
fn every_command_has_a_manual_page_with_its_exit_codes_and_examples() {
    let pages = pages().unwrap();
    for name in COMMANDS.iter().chain(["nodewarden"].iter()) {
        let (_, page) = pages
            .iter()
            .find(|(file, _)| *file == format!("{name}.1"))
            .unwrap_or_else(|| panic!("no page for {name}"));
        assert!(
            page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"),
            "{name}"
        );
        let complete = page.contains("Examples:") || name.contains("config-");
        assert!(complete, "{name}:\n{page}");
    }
    let hidden = [
        "nodewarden-worker.1",
        "nodewarden-daemon.1",
        "nodewarden-man.1",
        "nodewarden-help.1",
    ];
    assert!(!pages.iter().any(|(file, _)| hidden.contains(&file.as_str())));
}

#[test]
fn manual_pages_are_written_into_a_folder_that_may_be_new() {
    let dir = tempfile::tempdir().unwrap();
    for folder in [dir.path().to_owned(), dir.path().join("new/man1")] {
        man(&ManArgs { dir: folder.clone() }).unwrap();
        assert!(folder.join("nodewarden-status.1").is_file());
    }
    let file = dir.path().join("nodewarden-status.1");
    let error = format!("{:#}", man(&ManArgs { dir: file.clone() }).unwrap_err());
    assert!(error.contains(&file.display().to_string()), "{error}");
}

#[test]
fn what_help_says_fits_the_screen() {
    let mut commands = vec![visible()];
    while let Some(mut command) = commands.pop() {
        commands.extend(command.get_subcommands().cloned());
        let examples = command
            .get_after_long_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        for line in examples.lines() {
            assert!(screen::columns(line) <= 110, "{}: {line}", command.get_name());
        }
        assert!(!command.render_long_help().to_string().is_empty());
    }
}
