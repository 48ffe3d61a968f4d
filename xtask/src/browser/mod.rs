//! `cargo xtask browser`: the status page and its runbooks in a browser, on a phone and on a desk, light and dark.

mod axe;
mod chromium;
mod node;
mod page;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail, ensure};

use crate::{cmd, deps};
pub(crate) use chromium::Chromium;
use node::{Node, STATES, State};
pub(crate) use page::scripted;
use page::{Look, STILL, VIEWS, View};

/// The list of runbooks.
const RUNBOOKS: &str = "/runbooks/";

/// Highest page on a phone, in CSS pixels: 8 GPUs, 8 ports and an incident.
const HIGHEST: u64 = 4000;

/// The arguments of `cargo xtask browser`.
#[derive(clap::Args, Default)]
pub(crate) struct BrowserArgs {
    /// Check this nodewarden; build nothing.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Checks all pages in all states. The screenshots are in `target/browser`.
pub(crate) fn run(args: BrowserArgs) -> Result<()> {
    deps::install(&["chromium"])?;
    let work = cmd::target_dir()?.join("browser");
    fs::create_dir_all(&work)?;
    let axe = axe::script(&work)?;
    let program = match args.program {
        Some(program) => program,
        None => cmd::build_nodewarden()?,
    };
    let mut check = Check {
        browser: Chromium::start()?,
        axe,
        work,
        seen: BTreeSet::new(),
        looks: 0,
        problems: Vec::new(),
    };
    // All at once: the first readings take a minute.
    let started: Result<Vec<Node>> = STATES.iter().map(|_| Node::start(&program)).collect();
    for (mut node, state) in started?.into_iter().zip(STATES) {
        node.enter(state)?;
        check.state(&node, state)?;
        node.end()?;
    }
    println!(
        "{} looks; screenshots are in {}",
        check.looks,
        check.work.display()
    );
    if !check.problems.is_empty() {
        bail!("{}", check.problems.join("\n"));
    }
    Ok(())
}

struct Check {
    browser: Chromium,
    axe: String,
    work: PathBuf,
    /// The runbooks that were looked at.
    seen: BTreeSet<String>,
    looks: usize,
    problems: Vec<String>,
}

impl Check {
    /// The status page in a state, its links, and the runbooks that it leads to.
    fn state(&mut self, node: &Node, state: &State) -> Result<()> {
        let mut links = BTreeSet::new();
        for view in &VIEWS {
            let look = self.look(node, "/", view, state.name)?;
            let say = |what: String| format!("{} {} {}: {what}", state.name, view.width, view.scheme);
            let problems = of_state(&look, state, view).into_iter().map(say);
            self.problems.extend(problems);
            links.extend(look.links);
        }
        for link in [RUNBOOKS, STILL] {
            ensure!(links.contains(link), "{}: no link to {link}", state.name);
        }
        let is_runbook = |link: &&String| link.starts_with(RUNBOOKS);
        if state.incidents == Some(true) {
            ensure!(
                links.iter().filter(is_runbook).count() > 1,
                "{}: no link to the runbook of an incident",
                state.name
            );
        }
        for link in &links {
            // A node that is not ready answers so.
            let status = node.place.answer(link)?.status;
            if status != 200 && !(status == 503 && link == "/-/ready") {
                self.problems
                    .push(format!("{}: {link}: status {status}", state.name));
            }
        }
        self.look(node, STILL, &VIEWS[0], &format!("{}-still", state.name))?;
        for runbook in links.iter().filter(is_runbook) {
            if self.seen.insert(runbook.clone()) {
                for view in &VIEWS {
                    self.look(node, runbook, view, runbook.trim_matches('/'))?;
                }
            }
        }
        Ok(())
    }

    /// Looks at a page, and prints its measures and its problems.
    fn look(&mut self, node: &Node, path: &str, view: &View, name: &str) -> Result<Look> {
        let name = format!("{}-{}-{}", name.replace('/', "-"), view.width, view.scheme);
        let origin = node.place.origin();
        let file = self.work.join(&name);
        let look = page::look(&mut self.browser, &self.axe, &origin, path, view, &file)?;
        self.looks += 1;
        println!(
            "{name}: {} px high, {} problems",
            look.height,
            look.problems.len()
        );
        let problems = look.problems.iter().map(|what| format!("{name}: {what}"));
        self.problems.extend(problems);
        Ok(look)
    }
}

/// Problems of the status page of a state.
fn of_state(look: &Look, state: &State, view: &View) -> Vec<String> {
    let mut problems = Vec::new();
    if look.verdict.as_deref() != Some(state.health) {
        problems.push(format!("verdict {:?}, expected {}", look.verdict, state.health));
    }
    match look.first_incident {
        Some(_) if state.incidents == Some(false) => problems.push("an incident".to_owned()),
        None if state.incidents == Some(true) => problems.push("no incident".to_owned()),
        Some(bottom) if bottom > u64::from(view.height) => problems.push(format!(
            "the first incident's heading ends at {bottom} px, below the first screen"
        )),
        _ => {}
    }
    if view.is_phone() && look.height > HIGHEST {
        problems.push(format!("{} px high, expected at most {HIGHEST}", look.height));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_its_state_on_the_first_screen() {
        let unhealthy = STATES.iter().find(|s| s.name == "unhealthy").unwrap();
        let found = |verdict: &str, first_incident, height| {
            let look = Look {
                height,
                first_incident,
                verdict: Some(verdict.to_owned()),
                links: Vec::new(),
                problems: Vec::new(),
            };
            of_state(&look, unhealthy, &VIEWS[0]).len()
        };
        assert_eq!(found("unhealthy", Some(300), 3000), 0);
        assert_eq!(found("healthy", Some(300), 3000), 1, "the verdict");
        assert_eq!(found("unhealthy", None, 3000), 1, "no incident");
        assert_eq!(found("unhealthy", Some(900), 3000), 1, "below the screen");
        assert_eq!(found("unhealthy", Some(300), HIGHEST + 1), 1, "its height");
    }
}
