//! Of scenarios.

use super::keys::Key;
use super::value::Time;
use super::*;

const HEAD: &str = "[system]\ndriver = '580.95.05'\nnvml = '13.580.95.05'\ncuda = 13000\n";

fn parse(body: &str) -> Result<Scenario> {
    Scenario::parse(&format!("{HEAD}{body}"))
}

fn refused(body: &str) -> String {
    format!("{:#}", parse(body).unwrap_err())
}

#[test]
fn every_scenario_of_the_fixtures_is_in_form() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/nvidia");
    let mut found = 0;
    for entry in std::fs::read_dir(fixtures).unwrap() {
        let file = entry.unwrap().path().join("nvml.toml");
        if file.is_file() {
            let scenario = Scenario::load(&file).unwrap();
            for key in [Key::Uuid, Key::PciBusId, Key::Serial] {
                let texts: std::collections::BTreeSet<_> =
                    scenario.gpus.iter().filter_map(|g| g.text(key)).collect();
                assert_eq!(
                    texts.len(),
                    scenario.gpus.len(),
                    "{}: {}",
                    file.display(),
                    key.path()
                );
            }
            found += 1;
        }
    }
    assert!(found > 0);
}

#[test]
fn a_gpu_has_what_all_have_except_where_it_says_otherwise() {
    let scenario = parse(
        "[gpu]\nname = 'A'\npower = { usage = 1, limit = 2 }\nenergy = { start = 5, per_step = 1 }\n\
         [[gpus]]\n[[gpus]]\npower.usage = 7\nenergy = { start = 9 }\n",
    )
    .unwrap();
    let at = Time {
        steps: 2,
        seconds: 2.0,
    };
    let of = |gpu: usize, key| scenario.gpus[gpu].int(key, at);
    assert_eq!(
        (of(0, Key::PowerUsage), of(1, Key::PowerUsage)),
        (Some(1), Some(7))
    );
    assert_eq!(of(1, Key::PowerLimit), Some(2));
    // A moving value is replaced whole.
    assert_eq!((of(0, Key::Energy), of(1, Key::Energy)), (Some(7), Some(9)));
    assert_eq!(scenario.gpus[1].text(Key::Name), Some("A"));
    assert_eq!(of(0, Key::Pstate), None);
}

#[test]
fn an_idle_gpu_keeps_what_it_is() {
    let text = "[gpu]\nname = 'A'\nenergy = { start = 5, per_step = 1 }\n[idle]\npower.usage = 1\nprocesses = []\n\
                [[gpus]]\npower.usage = 7\nprocesses = [{ pid = 1 }]\n";
    let scenario = parse(text).unwrap();
    let (busy, idle) = (&scenario.gpus[0], &scenario.idle[0]);
    let usage = |gpu: &Gpu| gpu.int(Key::PowerUsage, Time::default());
    assert_eq!((usage(busy), usage(idle)), (Some(7), Some(1)));
    assert_eq!((busy.processes.len(), idle.processes.len()), (1, 0));
    assert_eq!(idle.text(Key::Name), Some("A"));
    assert_eq!(idle.int(Key::Energy, Time::default()), Some(5));
    assert!(refused("[idle]\ncolour = 1\n[[gpus]]\n").contains("gpu 0, idle"));
    assert!(parse("[[gpus]]\n").unwrap().idle.is_empty());
}

#[test]
fn links_are_as_many_as_stated_and_each_can_differ() {
    let scenario = parse(
        "[gpu.nvlink]\nlinks = 3\n[gpu.nvlink.each]\nstate = 1\nthroughput_data_tx = { per_step = 2 }\n\
         [[gpus]]\nnvlink.link.2 = { state = 0 }\n",
    )
    .unwrap();
    let states: Vec<_> = scenario.gpus[0]
        .links
        .iter()
        .map(|l| l.get(LinkKey::find("state")?)?.int(Time::default()))
        .collect();
    assert_eq!(states, [Some(1), Some(1), Some(0)]);
    assert!(
        refused("[gpu.nvlink]\nlinks = 1\n[[gpus]]\nnvlink.link.1 = { state = 0 }\n").contains("1 links")
    );
}

#[test]
fn what_nobody_knows_is_an_error_that_names_it() {
    for (body, expected) in [
        ("[gpu]\nnmae = 'x'\n[[gpus]]\n", "nmae"),
        ("[gpu.power]\nusages = 1\n[[gpus]]\n", "power.usages"),
        ("[gpu]\nname = 4\n[[gpus]]\n", "name: expected product name"),
        ("[gpu]\npstate = 'P0'\n[[gpus]]\n", "pstate"),
        ("[gpu.fields]\nNO_SUCH = 1\n[[gpus]]\n", "NO_SUCH"),
        ("[gpu.gpm.metrics]\nNO_SUCH = 1\n[[gpus]]\n", "NO_SUCH"),
        (
            "[gpu.nvlink]\nlinks = 1\n[gpu.nvlink.each]\nspeed = 1\n[[gpus]]\n",
            "speed",
        ),
        ("[[gpus]]\nprocesses = [{ pid = 1, user = 2 }]\n", "user"),
        ("[gpu.mig]\nlayout = 'x'\n[[gpus]]\n", "no layout x"),
        ("colour = 1\n", "colour"),
    ] {
        let error = refused(body);
        assert!(error.contains(expected), "{body}: {error}");
    }
    let missing = Scenario::parse(&format!("missing = ['nvmlNoSuch']\n{HEAD}")).unwrap_err();
    assert!(missing.to_string().contains("nvmlNoSuch"));
    let failing = Scenario::parse(&format!("failing = ['nvmlNoSuch']\n{HEAD}")).unwrap_err();
    assert!(
        failing
            .to_string()
            .contains("failing: the stand-in has no function nvmlNoSuch")
    );
}

#[test]
fn every_key_can_be_found_by_its_path_once() {
    let mut paths: Vec<_> = keys::KEYS.iter().map(|k| k.path()).collect();
    for path in &paths {
        assert_eq!(Key::find(path).unwrap().path(), *path);
    }
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), keys::KEYS.len());
}

#[test]
fn the_readme_lists_every_key() {
    let readme = include_str!("../../README.md");
    for key in keys::KEYS {
        let row = format!("| `{}` | {} |", key.path(), key.doc());
        assert!(readme.contains(&row), "README.md lacks: {row}");
    }
}
