//! The built-in table against a second, hand-typed one, and what a site's file may and may not say.

use super::*;

fn table() -> Table {
    Table::built_in().unwrap()
}

#[test]
fn the_critical_codes_do_what_the_policy_says() {
    use Class::{Gpu, Link, Node};
    use Clear::{GpuPresent, GpuReset, Person, Reboot, VerdictNone};
    use Response::{Comment, DrainNow, Observe, Reboot as Boot, ResetGpu};
    let usual: &[Clear] = &[GpuReset, VerdictNone, Reboot];
    let want: &[(u32, Class, Response, &[Clear])] = &[
        (46, Gpu, ResetGpu, usual),
        (48, Gpu, ResetGpu, &[GpuReset, Reboot]),
        (54, Node, DrainNow, &[Person]),
        (62, Gpu, ResetGpu, usual),
        (64, Gpu, ResetGpu, &[GpuReset, Reboot]),
        (74, Link, ResetGpu, usual),
        (79, Node, Boot, &[Reboot, GpuPresent]),
        (95, Gpu, ResetGpu, usual),
        (109, Gpu, ResetGpu, usual),
        (110, Gpu, ResetGpu, usual),
        (119, Gpu, ResetGpu, usual),
        (120, Gpu, ResetGpu, usual),
        (136, Link, ResetGpu, &[GpuReset, Reboot]),
        (140, Gpu, ResetGpu, usual),
        (142, Gpu, DrainNow, &[Reboot, Person]),
        (143, Gpu, ResetGpu, usual),
        (151, Node, Boot, &[Reboot]),
        (155, Link, ResetGpu, usual),
        (156, Gpu, ResetGpu, usual),
        (158, Gpu, ResetGpu, usual),
        (171, Gpu, Observe, &[]),
        (172, Gpu, Observe, &[]),
        (145, Link, Observe, usual),
        (149, Link, Observe, usual),
        (173, Link, Comment, usual),
    ];
    let table = table();
    for (code, class, action, clears) in want {
        let row = table.row(*code).unwrap();
        assert_eq!((row.class, row.action), (*class, *action), "{code}");
        assert_eq!(row.clears, *clears, "{code}");
    }
    let draining: Vec<u32> = table
        .rows()
        .filter(|r| r.action.drains())
        .map(|r| r.code)
        .collect();
    let listed: Vec<u32> = want.iter().filter(|w| w.2.drains()).map(|w| w.0).collect();
    assert_eq!(draining, listed, "nothing else drains");
}

#[test]
fn the_programs_own_faults_and_mere_notes_never_drain() {
    for row in table().rows() {
        if matches!(row.class, Class::App | Class::Info) {
            assert_eq!(row.action, Response::Observe, "{}", row.code);
        }
        if row.action.drains() {
            assert!(!row.clears.is_empty(), "{} would never end", row.code);
        }
    }
}

#[test]
fn only_a_gpu_that_is_gone_confirms_history() {
    let confirmed: Vec<u32> = table()
        .rows()
        .filter(|r| r.confirm.is_some())
        .map(|r| r.code)
        .collect();
    assert_eq!(confirmed, [79]);
}

#[test]
fn the_root_comes_before_what_follows_from_it() {
    let table = table();
    let order = [79, 48, 94, 95, 140, 62, 119, 120, 64, 74, 109, 154, 63, 45];
    let ranks: Vec<u8> = order.iter().map(|c| table.row(*c).unwrap().rank).collect();
    assert!(ranks.is_sorted(), "{ranks:?}");
    for code in [13, 31, 43, 45] {
        assert_eq!(table.row(code).unwrap().rank, 90);
    }
}

#[test]
fn codes_without_a_row() {
    for code in [0, 1, 61, 152, 153, 174, 185, 999] {
        assert_eq!(table().row(code), None);
    }
}

#[test]
fn a_sites_row_replaces_the_whole_row() {
    let mut table = table();
    table
        .overlay(
            "site.toml",
            "[[xid]]\ncode = 63\nmeaning = \"remap\"\nclass = \"info\"\naction = \"drain-now\"\n",
        )
        .unwrap();
    let row = table.row(63).unwrap();
    assert_eq!(
        (row.action, row.needs.len(), row.rank),
        (Response::DrainNow, 0, 50)
    );
    assert_eq!(table.row(79).unwrap().action, Response::Reboot);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (text, line, words) in [
        (
            "[[xid]]\ncode = 63\nmeaning = \"m\"\nclass = \"info\"\naction = \"explode\"\n",
            5,
            "explode",
        ),
        (
            "[[xid]]\ncode = 63\nmeaning = \"m\"\nclass = \"info\"\nactoin = \"observe\"\n",
            5,
            "actoin",
        ),
        (
            "[[xid]]\ncode = -1\nmeaning = \"m\"\nclass = \"info\"\naction = \"observe\"\n",
            2,
            "-1",
        ),
        (
            "\n[[xid]]\ncode = 63\nmeaning = \"m\"\nclass = \"info\"\naction = \"observe\"\nclears = [\"condition\"]\n",
            7,
            "expected `verdict-none`",
        ),
        (
            "[[xid]]\ncode = 63\nmeaning = \"m\"\nclass = \"info\"\naction = \"observe\"\n\
             [[xid]]\ncode = 63\nmeaning = \"m\"\nclass = \"info\"\naction = \"observe\"\n",
            7,
            "second row",
        ),
        ("[[xids]]\n", 1, "xids"),
    ] {
        let error = table().overlay("/etc/site.toml", text).unwrap_err();
        assert_eq!(error.line, line, "{error}");
        assert!(error.to_string().starts_with("/etc/site.toml:"), "{error}");
        assert!(error.what.contains(words), "{error}");
        assert!(error.what.contains("expected"), "{error}");
    }
}

#[test]
fn the_registers_of_xid_74() {
    let table = table();
    let row = table.row(74).unwrap();
    // Word, bits that act, and kinds that act when they come again, on the GPU and on one link: typed a second time, from
    // NVIDIA's catalog.
    type Bits = &'static [u32];
    let want: [(usize, Bits, &[Bits], &[Bits]); 7] = [
        (0, &[8, 9, 12, 16, 17, 24, 28, 21, 22], &[&[27, 29]], &[&[4, 5]]),
        (1, &[], &[], &[]),
        (2, &[13], &[&[16, 19], &[17, 18]], &[&[0, 1, 2, 6]]),
        (3, &[18], &[], &[]),
        (4, &[], &[], &[&[18, 19, 21, 22, 24, 25, 27, 28]]),
        (5, &[], &[], &[]),
        (6, &[], &[], &[]),
    ];
    for (word, serious, of_gpu, of_link) in want {
        for bit in 0..64 {
            let mut words = vec![0; 7];
            words[word] = 1 << bit;
            assert_eq!(row.is_serious(&words), serious.contains(&bit), "{word} {bit}");
            for (link, on) in [
                (None, " link any"),
                (Some(-1), " link any"),
                (Some(17), " link 17"),
            ] {
                let named = |repeated: &[Bits], on: &str| -> Vec<String> {
                    let all = repeated.iter().enumerate();
                    let seen = all.filter(|(_, bits)| bits.contains(&bit));
                    seen.map(|(at, _)| format!("74.{word}.{at}{on}")).collect()
                };
                let kinds = [named(of_gpu, ""), named(of_link, on)].concat();
                assert_eq!(row.kinds(&words, link), kinds, "{word} {bit}");
            }
        }
    }
    assert!(!row.is_serious(&[]) && row.kinds(&[1 << 1 | 1 << 20], Some(0)).is_empty());
}
