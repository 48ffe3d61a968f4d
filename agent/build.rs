//! Gives every build its own id, so that a worker started from a replaced binary is noticed, and renders the runbooks.

#![allow(
    clippy::disallowed_methods,
    reason = "it runs when the program is built, on its source"
)]

use std::fmt::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs, io};

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

const RUNBOOKS: &str = "../docs/runbooks";

fn main() -> io::Result<()> {
    // A reproducible build sets SOURCE_DATE_EPOCH; its version distinguishes it.
    let stamp = env::var("SOURCE_DATE_EPOCH").unwrap_or_else(|_| {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs())
            .to_string()
    });
    println!("cargo:rustc-env=NODEWARDEN_BUILD={stamp}");
    println!("cargo:rerun-if-env-changed=SOURCE_DATE_EPOCH");
    for source in [
        "src",
        "exposition/src",
        "health/src",
        "model/src",
        "slurm/src",
        "sys/src",
        "../collectors/src",
    ] {
        println!("cargo:rerun-if-changed={source}");
    }
    println!("cargo:rerun-if-changed={RUNBOOKS}");
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let (rows, bodies) = runbooks()?;
    fs::write(Path::new(&out).join("runbooks.rs"), rows)?;
    fs::write(Path::new(&out).join("runbooks.html"), bodies)
}

/// The rows of `RUNBOOKS` in src/http/runbooks.rs, by name, and the text with all their pages.
fn runbooks() -> io::Result<(String, String)> {
    let mut rows = Vec::new();
    for entry in fs::read_dir(RUNBOOKS)? {
        let file = entry?.path();
        let Some(name) = file.file_stem().and_then(|stem| stem.to_str()) else {
            continue;
        };
        // The list of all stands at the root of the others.
        let name = if name == "README" { "" } else { name };
        rows.push((name.to_owned(), body(&fs::read_to_string(&file)?)));
    }
    rows.sort();
    let (mut text, mut bodies) = (String::from("&[\n"), String::new());
    for (name, body) in rows {
        let from = bodies.len();
        bodies.push_str(&body);
        writeln!(
            text,
            "    Runbook {{ name: Text::new({name:?}), body: ({from}, {}) }},",
            bodies.len()
        )
        .map_err(io::Error::other)?;
    }
    text.push(']');
    Ok((text, bodies))
}

/// The HTML of a page. Links to other runbooks lead to their pages; others lose their link: the daemon serves no other documents.
fn body(text: &str) -> String {
    let mut kept = Vec::new();
    let events = Parser::new_ext(text, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Start(Tag::Link {
            link_type,
            dest_url,
            title,
            id,
        }) => {
            let page = dest_url.strip_suffix(".md").filter(|name| !name.contains('/'));
            let page = page.map(|name| CowStr::from(format!("/runbooks/{name}")));
            kept.push(page.is_some());
            let dest_url = page?;
            Some(Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            }))
        }
        Event::End(TagEnd::Link) if kept.pop() == Some(false) => None,
        event => Some(event),
    });
    let mut out = String::new();
    html::push_html(&mut out, events);
    out
}
