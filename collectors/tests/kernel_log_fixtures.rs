//! Recorded kernel logs and their events. `UPDATE_GOLDEN=1` updates `expected.events`.

#[cfg(test)]
mod fixtures {
    use std::fmt::Write as _;
    use std::fs::File;
    use std::io::Write as _;
    use std::path::{Path, PathBuf};
    use std::sync::mpsc;

    use collectors::{Env, Events, Settings, kernel_log, sys::root};

    fn cases() -> Vec<PathBuf> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/kernel_log");
        let names = root::list(&dir).unwrap().unwrap();
        names.iter().map(|name| dir.join(name)).collect()
    }

    fn events(case: &Path) -> String {
        let env = Env {
            boot_id: Some("recorded".to_owned()),
            ..Env::recorded(case)
        };
        let mut source = (kernel_log::SPEC.open)(&env, &Settings::default())
            .unwrap()
            .unwrap();
        let (to, from) = mpsc::sync_channel(10_000);
        source
            .watcher
            .as_mut()
            .unwrap()
            .run(None, &Events::new(to))
            .unwrap();
        let mut out = String::new();
        for event in from {
            writeln!(
                out,
                "{} x{} at {} us: {:?}\n    {}",
                event.seq, event.count, event.at_us, event.body, event.text
            )
            .unwrap();
        }
        out
    }

    #[test]
    fn every_recorded_log_holds_its_events() {
        let cases = cases();
        assert!(!cases.is_empty());
        for case in cases {
            let got = events(&case);
            let path = case.join("expected.events");
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                File::create(&path).unwrap().write_all(got.as_bytes()).unwrap();
            }
            let want = root::read_bytes(&path, root::MAX_FILE)
                .unwrap()
                .unwrap_or_default();
            assert_eq!(got, String::from_utf8(want).unwrap(), "{}", case.display());
            assert!(
                root::read_text(&case.join("SOURCE")).unwrap().is_some(),
                "{}",
                case.display()
            );
        }
    }
}
