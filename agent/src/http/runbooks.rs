//! The runbooks as pages, for sites without access to the project's documentation. The build renders them from
//! `docs/runbooks`.

use maud::{PreEscaped, html};

use super::document::document;
use health::checks;

/// One runbook.
#[derive(Debug)]
pub(super) struct Runbook {
    /// The path of its page.
    pub(super) path: &'static str,
    /// Its file without extension.
    pub(super) title: &'static str,
    /// Its text, as HTML.
    body: &'static str,
}

/// The path of the list of all runbooks.
pub(super) const INDEX: &str = "/runbooks/";

/// All pages, by path.
static RUNBOOKS: &[Runbook] = include!(concat!(env!("OUT_DIR"), "/runbooks.rs"));

/// The runbook at this path.
pub(super) fn at(path: &str) -> Option<&'static Runbook> {
    let path = if path == "/runbooks" { INDEX } else { path };
    let found = RUNBOOKS
        .binary_search_by_key(&path, |runbook| runbook.path)
        .ok()?;
    RUNBOOKS.get(found)
}

/// The runbook of a check. `None`: a check of another release.
pub(super) fn of_check(id: &str) -> Option<&'static Runbook> {
    at(&format!("{INDEX}{}", checks::check(id)?.id))
}

/// The page.
pub(super) fn render(runbook: &Runbook) -> String {
    let body = html! {
        main class="text" {
            nav { a href="/" { "This node" } " " a href=(INDEX) { "All runbooks" } }
            (PreEscaped(runbook.body))
        }
    };
    document(runbook.title, None, &body)
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
            for link in runbook.body.split("href=\"").skip(1) {
                let link = link.split('"').next().unwrap();
                let path = link.split('#').next().unwrap();
                assert!(at(path).is_some(), "{}: {link}", runbook.path);
                links += 1;
            }
            assert!(!runbook.body.contains("<script"), "{}", runbook.path);
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
