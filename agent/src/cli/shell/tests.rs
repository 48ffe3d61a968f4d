use clap::ValueEnum;

use super::*;

/// The public commands.
const COMMANDS: [&str; 9] = [
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
    for hidden in ["bundle-reader", "metrics-reader", "man"] {
        assert!(Cli::command().find_subcommand(hidden).is_some(), "{hidden}");
        assert!(shown.find_subcommand(hidden).is_none(), "{hidden}");
    }
}

#[test]
fn every_command_has_a_manual_page_with_its_exit_codes_and_examples() {
    let pages = pages().unwrap();
    let commands = COMMANDS.iter().chain(["nodewarden"].iter());
    let commands = commands.map(|name| (*name, format!("{name}.1")));
    for (name, wanted) in commands.chain([("nodewarden-run", "nodewarden-run.8".to_owned())]) {
        let (_, page) = pages
            .iter()
            .find(|(file, _)| *file == wanted)
            .unwrap_or_else(|| panic!("no page for {name}"));
        let (_, section) = wanted.rsplit_once('.').unwrap();
        assert!(
            page.contains(&format!("{section} ")) && page.contains("nodewarden.toml"),
            "{page}"
        );
        assert!(
            page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"),
            "{name}"
        );
        let complete = page.contains("Examples:") || name.contains("config-");
        assert!(complete, "{name}:\n{page}");
    }
    let hidden = [
        "nodewarden-run.1",
        "nodewarden-bundle-reader.1",
        "nodewarden-metrics-reader.1",
        "nodewarden-man.1",
        "nodewarden-help.1",
    ];
    assert!(!pages.iter().any(|(file, _)| hidden.contains(&file.as_str())));
}

#[test]
fn pages_refer_to_pages_that_exist() {
    let pages = pages().unwrap();
    let mut references = 0;
    for (file, page) in &pages {
        let plain = page.replace("\\-", "-").replace("\\fB", " ").replace("\\fR", "");
        for word in plain
            .split([' ', ',', '\n'])
            .filter(|w| w.starts_with("nodewarden"))
        {
            let Some((name, rest)) = word.split_once('(') else {
                continue;
            };
            let section = rest.trim_end_matches(')');
            if section.parse::<u8>().is_err() || name.contains("-help") {
                continue;
            }
            references += 1;
            let wanted = format!("{name}.{section}");
            assert!(pages.iter().any(|(f, _)| *f == wanted), "{file}: {word}");
        }
    }
    assert!(references > 20, "{references}");
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
