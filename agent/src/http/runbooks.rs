//! The runbooks as pages, for sites without access to the project's documentation. The build renders them from
//! `docs/runbooks`.

use maud::{PreEscaped, html};

use super::document::document;
use collectors::inline::Text;
use health::checks;

/// One runbook.
#[derive(Debug)]
pub(super) struct Runbook {
    /// Its file without extension. Empty: the list of all.
    name: Text<40>,
    /// The place of its page in [`BODIES`], from and to.
    body: (u32, u32),
}

impl Runbook {
    /// The path of its page.
    pub(super) fn path(&self) -> String {
        format!("{INDEX}{}", self.name.as_str())
    }

    /// Its text, as HTML.
    fn body(&self) -> &'static str {
        let (from, to) = self.body;
        BODIES.get(from as usize..to as usize).unwrap_or_default()
    }

    /// The name of a check.
    pub(super) fn title(&self) -> &str {
        match self.name.as_str() {
            "" => "Runbooks",
            name => name,
        }
    }
}

/// The path of the list of all runbooks.
pub(super) const INDEX: &str = "/runbooks/";

/// The text of all pages. A row without an address stays on pages of the file, see [`collectors::inline`].
static BODIES: &str = include_str!(concat!(env!("OUT_DIR"), "/runbooks.html"));

/// All pages, by name.
static RUNBOOKS: &[Runbook] = include!(concat!(env!("OUT_DIR"), "/runbooks.rs"));

/// The runbook at this path.
pub(super) fn at(path: &str) -> Option<&'static Runbook> {
    named(if path == "/runbooks" {
        ""
    } else {
        path.strip_prefix(INDEX)?
    })
}

/// The runbook of a check. `None`: a check of another release.
pub(super) fn of_check(id: &str) -> Option<&'static Runbook> {
    named(checks::check(id)?.id)
}

fn named(name: &str) -> Option<&'static Runbook> {
    let found = RUNBOOKS
        .binary_search_by_key(&name, |runbook| runbook.name.as_str())
        .ok()?;
    RUNBOOKS.get(found)
}

/// The page.
pub(super) fn render(runbook: &Runbook) -> String {
    let body = html! {
        main class="text" {
            nav { a href="/" { "This node" } " " a href=(INDEX) { "All runbooks" } }
            (PreEscaped(runbook.body()))
        }
    };
    document(runbook.title(), None, &body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_page_and_every_link_of_a_page_leads_to_one() {
        for check in checks::configurable() {
            assert!(of_check(check.id).is_some(), "{}", check.id);
        }
        assert!(at(INDEX).is_some() && at("/runbooks").is_some());
        let mut links = 0;
        for runbook in RUNBOOKS {
            for link in runbook.body().split("href=\"").skip(1) {
                let link = link.split('"').next().unwrap();
                let path = link.split('#').next().unwrap();
                assert!(at(path).is_some(), "{}: {link}", runbook.title());
                links += 1;
            }
            assert!(!runbook.body().contains("<script"), "{}", runbook.title());
        }
        assert!(links > RUNBOOKS.len(), "{links}");
    }

    #[test]
    fn a_page_has_its_commands_and_tables() {
        let page = render(at("/runbooks/xid").unwrap());
        for part in ["<table>", "<pre><code", "nodewarden why", "<h1>"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(at("/runbooks/../xid").is_none() && at("/runbooks/nothing").is_none());
    }
}
