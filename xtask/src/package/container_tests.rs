//! The recipe of the image and the manifest for Kubernetes say what the unit, the program and the documents say.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use saphyr_parser::{Event, Parser, ScanError, StrInput};
use serde_json::{Map, Value};

use super::list::BINARY;
use crate::cmd;

const MANIFEST: &str = "packaging/kubernetes/daemonset.yaml";
const RECIPE: &str = "packaging/container/Containerfile";
const PAGE: &str = "docs/operations/containers.md";
const UNIT: &str = "systemd/nodewarden.service";

fn read(path: &str) -> String {
    fs::read_to_string(cmd::root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The documents of a YAML text. Every scalar is a text.
fn yaml(text: &str) -> Vec<Value> {
    fn next<'a>(parser: &mut Parser<'a, StrInput<'a>>) -> Event<'a> {
        let found: Option<Result<_, ScanError>> = parser.next_event();
        found.expect("the end comes first").expect("YAML").0
    }
    fn value<'a>(parser: &mut Parser<'a, StrInput<'a>>, event: Event<'a>) -> Value {
        match event {
            Event::Scalar(text, ..) => Value::String(text.into_owned()),
            Event::SequenceStart(..) => {
                let mut list = Vec::new();
                loop {
                    match next(parser) {
                        Event::SequenceEnd => return Value::Array(list),
                        event => list.push(value(parser, event)),
                    }
                }
            }
            Event::MappingStart(..) => {
                let mut map = Map::new();
                loop {
                    let key = match next(parser) {
                        Event::MappingEnd => return Value::Object(map),
                        Event::Scalar(key, ..) => key.into_owned(),
                        other => panic!("a key: {other:?}"),
                    };
                    let event = next(parser);
                    let value = value(parser, event);
                    assert!(map.insert(key.clone(), value).is_none(), "{key} occurs twice");
                }
            }
            other => panic!("a value: {other:?}"),
        }
    }
    let mut parser = Parser::new_from_str(text);
    let mut documents = Vec::new();
    loop {
        match next(&mut parser) {
            Event::DocumentStart(_) => {
                let event = next(&mut parser);
                documents.push(value(&mut parser, event));
            }
            Event::StreamEnd => return documents,
            _ => {}
        }
    }
}

fn of_kind(kind: &str) -> Value {
    let mut all = yaml(&read(MANIFEST));
    all.retain(|document| document["kind"] == kind);
    assert_eq!(all.len(), 1, "{kind}");
    all.remove(0)
}

fn pod() -> Value {
    of_kind("DaemonSet")["spec"]["template"]["spec"].clone()
}

fn container() -> Value {
    let pod = pod();
    assert_eq!(pod["containers"].as_array().unwrap().len(), 1);
    pod["containers"][0].clone()
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().unwrap_or_else(|| panic!("no list: {value}"));
    list.iter()
        .map(|text| text.as_str().unwrap().to_owned())
        .collect()
}

/// The words of a setting of the unit.
fn setting(key: &str) -> Vec<String> {
    let unit = read(UNIT);
    let lines = unit
        .lines()
        .filter_map(|l| l.strip_prefix(key)?.strip_prefix('='));
    let found: Vec<String> = lines.flat_map(str::split_whitespace).map(str::to_owned).collect();
    assert!(!found.is_empty(), "{key}");
    found
}

/// The unit's capabilities, as containers name them.
fn capabilities() -> BTreeSet<String> {
    let all = setting("CapabilityBoundingSet");
    all.iter()
        .map(|name| name.strip_prefix("CAP_").unwrap().to_owned())
        .collect()
}

/// The path of a constant of the program.
fn path_of(constant: &str, file: &str) -> String {
    let text = read(file);
    let (_, rest) = text
        .split_once(&format!("{constant}: &str = \""))
        .unwrap_or_else(|| panic!("{file}: {constant}"));
    rest.split('"').next().unwrap().to_owned()
}

/// The volume that is mounted at each path.
fn mounts() -> BTreeMap<String, (Value, bool)> {
    let volumes = pod()["volumes"].clone();
    let volumes = volumes.as_array().unwrap();
    let mounts = container()["volumeMounts"].clone();
    let mounts = mounts.as_array().unwrap();
    assert_eq!(volumes.len(), mounts.len());
    let volume = |name: &Value| volumes.iter().find(|v| v["name"] == *name);
    mounts
        .iter()
        .map(|mount| {
            let volume = volume(&mount["name"]).unwrap_or_else(|| panic!("{mount}: no volume"));
            let path = mount["mountPath"].as_str().unwrap().to_owned();
            (path, (volume.clone(), mount["readOnly"] == "true"))
        })
        .collect()
}

#[test]
fn a_pod_has_the_rights_and_limits_of_the_unit() {
    let container = container();
    let security = &container["securityContext"];
    let added: BTreeSet<String> = texts(&security["capabilities"]["add"]).into_iter().collect();
    assert_eq!(added, capabilities());
    assert_eq!(texts(&security["capabilities"]["drop"]), ["ALL"]);
    assert!(security.get("privileged").is_none());
    assert_eq!(setting("NoNewPrivileges"), ["yes"]);
    assert_eq!(security["allowPrivilegeEscalation"], "false");
    assert_eq!(security["readOnlyRootFilesystem"], "true");
    assert_eq!(security["runAsUser"], "0");
    let memory = container["resources"]["limits"]["memory"].as_str().unwrap();
    assert_eq!(memory.strip_suffix('i').unwrap(), setting("MemoryMax")[0]);
    let seconds = |text: &str| text.trim_end_matches('s').parse::<u32>().unwrap();
    let grace = pod()["terminationGracePeriodSeconds"].clone();
    assert!(seconds(grace.as_str().unwrap()) >= seconds(&setting("TimeoutStopSec")[0]));
    // SIGKILL into a GPU driver: systemd never sends it either.
    assert_eq!(setting("KillMode"), ["process"]);
    assert!(container.get("livenessProbe").is_none());
    for key in ["hostPID", "hostNetwork"] {
        assert_eq!(pod()[key], "true", "{key}");
    }
}

/// Of systemd's settings that visit a disk before the start, or make another unit's failure the service's.
#[test]
fn no_dead_disk_keeps_the_service_from_starting() {
    let unit = read(UNIT);
    for key in [
        "Requires",
        "BindsTo",
        "PrivateTmp",
        "StateDirectory",
        "ReadWritePaths",
        "ProtectHome",
    ] {
        assert!(!unit.lines().any(|line| line.starts_with(key)), "{key}");
    }
}

#[test]
fn a_pod_has_the_folders_of_the_program_and_none_else_to_write() {
    let state = path_of("SYSTEM_STATE", "agent/src/cli/dirs.rs");
    let run = path_of("SYSTEM_RUN", "agent/src/runner/mod.rs");
    let config = path_of("DEFAULT_FILE", "agent/src/config/source.rs");
    let drop_ins = config.replace("nodewarden.toml", "conf.d");
    // Of the folder and of each above it.
    let parts: Vec<&str> = state.split('/').skip(1).collect();
    let units: Vec<String> = (1..=parts.len())
        .map(|n| format!("{}.mount", parts[..n].join("-")))
        .collect();
    assert_eq!(setting("Wants"), units);
    assert!(units.iter().all(|unit| setting("After").contains(unit)));
    let mounts = mounts();
    let writable: Vec<&String> = mounts
        .iter()
        .filter(|(_, (_, read_only))| !read_only)
        .map(|(path, _)| path)
        .collect();
    assert_eq!(writable, [&run, "/tmp", &state]);
    // The same path as on the node: its own `nodewarden check` reads the verdict.
    for path in [state.as_str(), &run, "/sys", "/dev/kmsg"] {
        let (volume, _) = &mounts[path];
        assert_eq!(volume["hostPath"]["path"], path);
    }
    let (volume, _) = &mounts[&drop_ins];
    let map = of_kind("ConfigMap");
    assert_eq!(volume["configMap"]["name"], map["metadata"]["name"]);
    let files = map["data"].as_object().unwrap();
    for (name, text) in files {
        assert!(name.ends_with(".toml"), "{name}");
        toml::from_str::<toml::Value>(text.as_str().unwrap()).unwrap();
    }
    assert_eq!(files.len(), 1);
}

#[test]
fn the_probe_asks_a_page_of_the_address_where_the_program_listens() {
    let probe = container()["readinessProbe"]["httpGet"].clone();
    let path = probe["path"].as_str().unwrap();
    assert!(read("docs/http.md").contains(&format!("| `{path}` |")), "{path}");
    let address = format!(
        "{}:{}",
        probe["host"].as_str().unwrap(),
        probe["port"].as_str().unwrap()
    );
    assert!(read("systemd/nodewarden.socket").contains(&format!("ListenStream={address}\n")));
    let map = of_kind("ConfigMap");
    let site: toml::Value = toml::from_str(map["data"]["10-site.toml"].as_str().unwrap()).unwrap();
    let listen = site["listen"].as_array().unwrap();
    assert!(listen.iter().any(|a| a.as_str() == Some(&*address)), "{listen:?}");
}

#[test]
fn the_image_starts_the_program_of_the_package() {
    let recipe = read(RECIPE);
    let start = setting("ExecStart");
    assert_eq!(start[0], format!("/{BINARY}"));
    assert!(recipe.contains(&format!(
        "ENTRYPOINT [\"{}\"]\nCMD [\"{}\"]\n",
        start[0], start[1]
    )));
    assert_eq!(texts(&container()["args"]), start[1..]);
    assert!(recipe.contains(&format!("cp /deb/{BINARY} ")));
    // The toolkit for CDI adds the driver's folder only to a cache that exists.
    assert!(recipe.contains("ldconfig -r /image;"));
    // The last stage has only what the first one put together: no package manager.
    let last = recipe.rsplit("\nFROM ").next().unwrap();
    assert!(last.starts_with("scratch\n") && !last.contains("RUN"), "{last}");
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        container()["image"]
            .as_str()
            .unwrap()
            .ends_with(&format!(":{version}"))
    );
}

#[test]
fn the_documented_command_has_the_same_rights_and_mounts() {
    let page = read(PAGE);
    let words: Vec<&str> = page.split_whitespace().collect();
    let list = words
        .iter()
        .find_map(|word| word.strip_prefix("--cap-add="))
        .unwrap();
    let added: BTreeSet<String> = list.split(',').map(str::to_owned).collect();
    assert_eq!(added, capabilities());
    for (path, (volume, read_only)) in mounts() {
        assert!(page.contains(&format!("| `{path}` |")), "{path}");
        if volume.get("hostPath").is_none() {
            continue;
        }
        let ending = if read_only { ":ro" } else { "" };
        let option = match volume["hostPath"]["type"].as_str() {
            Some("CharDevice") => format!("--device={path}:{path}:r"),
            _ => format!("--volume={path}:{path}{ending}"),
        };
        assert!(words.contains(&&*option), "{option}");
    }
    // podman's own view of the cgroups would hide those of jobs.
    for option in [
        "--pid=host",
        "--network=host",
        "--cgroupns=host",
        "--volume=/sys/fs/cgroup:/sys/fs/cgroup:ro",
        "--read-only",
        "--cap-drop=all",
    ] {
        assert!(words.contains(&option), "{option}");
    }
}
