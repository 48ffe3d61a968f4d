//! How the folders of a crate use each other: never in a circle. A folder is a module just below the crate root.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use syn::Item;

use super::tree::{self, Module};
use crate::cmd;

/// Who uses whom, with a file that does.
type Graph = BTreeMap<String, BTreeMap<String, PathBuf>>;

/// Prints the graph and returns its circles.
pub(super) fn check(modules: &[Module]) -> Vec<String> {
    let graph = graph(modules);
    for (folder, uses) in graph.iter().filter(|(_, uses)| !uses.is_empty()) {
        let uses: Vec<&str> = uses.keys().map(String::as_str).collect();
        println!("  {folder} -> {}", uses.join(" "));
    }
    circles(&graph)
}

/// What the crate root defines belongs to all and to no folder; what it only passes on is its folder's.
fn graph(modules: &[Module]) -> Graph {
    let root = modules.iter().find(|m| m.path.is_empty());
    let passed_on: BTreeMap<String, String> = root
        .into_iter()
        .flat_map(|root| &root.items)
        .filter_map(|item| match item {
            Item::Use(line) => Some(tree::brought_in(&line.tree)),
            _ => None,
        })
        .flatten()
        .filter_map(|(name, path)| Some((name, path.into_iter().next()?)))
        .collect();
    let mut graph: Graph = modules
        .iter()
        .filter_map(|m| Some((m.path.first()?.clone(), BTreeMap::new())))
        .collect();
    let folders: BTreeSet<String> = graph.keys().cloned().collect();
    for module in modules {
        let Some(uses) = module.path.first().and_then(|own| graph.get_mut(own)) else {
            continue;
        };
        for name in tree::below_root(module.tokens(), &module.path) {
            let target = if folders.contains(&name) {
                Some(&name)
            } else {
                passed_on.get(&name)
            };
            let target = target.filter(|t| Some(*t) != module.path.first() && folders.contains(*t));
            if let Some(target) = target {
                uses.entry(target.clone()).or_insert_with(|| module.file.clone());
            }
        }
    }
    graph
}

/// One line for each circle: the shortest way round, from each folder that has none yet.
fn circles(graph: &Graph) -> Vec<String> {
    let mut covered = BTreeSet::new();
    let mut problems = Vec::new();
    for start in graph.keys() {
        if covered.contains(start) {
            continue;
        }
        let Some(way) = way_back(graph, start) else {
            continue;
        };
        let step = |pair: &[&str]| {
            let file = &graph[pair[0]][pair[1]];
            let file = file.strip_prefix(cmd::root()).unwrap_or(file);
            format!("{} uses {} ({})", pair[0], pair[1], file.display())
        };
        let steps: Vec<String> = way.windows(2).map(step).collect();
        problems.push(format!("a circle: {}", steps.join(", ")));
        covered.extend(way.into_iter().map(str::to_owned));
    }
    problems
}

/// The shortest way from a folder to itself.
fn way_back<'g>(graph: &'g Graph, start: &'g str) -> Option<Vec<&'g str>> {
    let mut ways = std::collections::VecDeque::from([vec![start]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in graph.get(*way.last()?).into_iter().flat_map(BTreeMap::keys) {
            let longer: Vec<&str> = way.iter().copied().chain([next.as_str()]).collect();
            if next == start {
                return Some(longer);
            }
            if seen.insert(next) {
                ways.push_back(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate of files, each with its text.
    fn of(files: &[(&str, &str)]) -> Graph {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        graph(&tree::modules(&folder.path().join("lib.rs")).unwrap())
    }

    fn uses(graph: &Graph, folder: &str) -> Vec<String> {
        graph[folder].keys().cloned().collect()
    }

    #[test]
    fn every_way_to_name_another_folder_is_followed_and_tests_are_not() {
        let graph = of(&[
            (
                "lib.rs",
                "mod a; mod b; mod c; mod d; mod e; mod f; mod g;\n\
                 pub use b::Name; pub use c::{self as sea, x::Other as Renamed};",
            ),
            (
                "a/mod.rs",
                "mod deep; use super::{b::{self, x}, d};\n\
                 fn f() { vec![crate::e::E]; } pub(crate) fn own() {}\n\
                 #[cfg(test)] mod tests { use crate::f; } #[cfg(test)] mod more;",
            ),
            (
                "a/deep.rs",
                "use super::super::g::G; use super::own; use crate::a::f;",
            ),
            ("b.rs", "use crate::Renamed; use crate::{Unknown, b::x};"),
            ("c.rs", "mod inner { use super::super::Name; use super::x; }"),
            ("d.rs", ""),
            ("e.rs", ""),
            ("f.rs", ""),
            ("g.rs", ""),
        ]);
        assert_eq!(uses(&graph, "a"), ["b", "d", "e", "g"]);
        assert_eq!(uses(&graph, "b"), ["c"]);
        assert_eq!(uses(&graph, "c"), ["b"]);
    }

    #[test]
    fn a_circle_is_reported_once_with_its_files() {
        let graph = of(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b;"),
            ("b.rs", "use crate::c;"),
            ("c.rs", "use crate::a;"),
            ("d.rs", "use crate::a;"),
        ]);
        let found = circles(&graph);
        assert_eq!(found.len(), 1, "{found:?}");
        for part in ["a uses b", "b uses c", "c uses a", "a.rs"] {
            assert!(found[0].contains(part), "{found:?}");
        }
        let none = of(&[
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "use crate::b;"),
            ("b.rs", ""),
        ]);
        assert!(circles(&none).is_empty());
    }
}
