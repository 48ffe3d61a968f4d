//! One page at one width, light or dark: its measures, its screenshot, and what is wrong with it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::chromium::{Chromium, Tab};

/// Rules of axe-core: WCAG 2.2 A and AA, and its advice. A tap target is at least 24 px (2.5.8).
const RULES: &str = "resultTypes:['violations'],preload:false,runOnly:['wcag2a','wcag2aa','wcag21a','wcag21aa','wcag22aa','best-practice']";
/// A page that a browser loads again needs a link to one that stays (2.2.2): the rules are checked there.
const REFRESHED: &str = "rules:{'meta-refresh':{enabled:false}}";
pub(super) const STILL: &str = "/?refresh=off";

/// Where the page is checked.
pub(super) struct View {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) scheme: &'static str,
}

const PHONE: (u32, u32) = (390, 844);
const DESK: (u32, u32) = (1280, 800);

pub(super) const VIEWS: [View; 4] = [
    View::new(PHONE, "light"),
    View::new(PHONE, "dark"),
    View::new(DESK, "light"),
    View::new(DESK, "dark"),
];

impl View {
    const fn new((width, height): (u32, u32), scheme: &'static str) -> Self {
        Self {
            width,
            height,
            scheme,
        }
    }

    pub(super) const fn is_phone(&self) -> bool {
        self.width == PHONE.0
    }
}

/// What a page is, and what is wrong with it.
pub(super) struct Look {
    /// Of the whole page, in CSS pixels.
    pub(super) height: u64,
    /// The lower edge of the first open incident's heading.
    pub(super) first_incident: Option<u64>,
    /// The verdict in the page.
    pub(super) verdict: Option<String>,
    /// The paths of its links.
    pub(super) links: Vec<String>,
    pub(super) problems: Vec<String>,
}

/// Loads a page, without JavaScript, and checks it as it is and with all parts opened. `file`: its screenshot, without
/// extension.
pub(super) fn look(
    browser: &mut Chromium,
    axe: &str,
    origin: &str,
    path: &str,
    view: &View,
    file: &Path,
) -> Result<Look> {
    let mut tab = browser.tab()?;
    load(&mut tab, &format!("{origin}{path}"), view)?;
    let first = measure(&mut tab)?;
    screenshot(&mut tab, &file.with_extension("png"))?;
    let closed = open(&mut tab)?;
    let opened = measure(&mut tab)?;
    if closed > 0 {
        screenshot(&mut tab, &file.with_extension("open.png"))?;
    }

    let mut problems = Vec::new();
    if first["scripts"] != 0 {
        problems.push("it has a script".to_owned());
    }
    if opened["closed"] != 0 {
        problems.push(format!("a click does not open {} of its parts", opened["closed"]));
    }
    for (page, when) in [(&first, ""), (&opened, ", all parts opened")] {
        let (content, window) = (number(page, "content")?, number(page, "window")?);
        if content > window {
            let wide = &page["wide"];
            problems.push(format!(
                "it scrolls sideways{when}: {content} px in {window} px, by {wide}"
            ));
        }
        for part in page["spilled"].as_array().into_iter().flatten() {
            problems.push(format!("wider than its box{when}: {part}"));
        }
    }
    problems.extend(errors(&tab));
    problems.extend(requests(&tab, origin));
    // axe-core waits by timers, which need scripts.
    tab.call("Emulation.setScriptExecutionDisabled", &json!({"value": false}))?;
    tab.evaluate(axe)?;
    let links = first["links"].as_array().context("no links")?;
    let exempt = if links.iter().any(|l| l == STILL) {
        REFRESHED
    } else {
        ""
    };
    let result = tab.evaluate(&format!("axe.run(document,{{{RULES},{exempt}}})"))?;
    problems.extend(violations(&result)?);
    tab.close()?;

    Ok(Look {
        height: number(&first, "height")?,
        first_incident: first["incident"].as_u64(),
        verdict: first["verdict"].as_str().map(str::to_owned),
        links: links
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        problems,
    })
}

/// Replaces the page at an address by another one, runs a script in it, and takes a picture of all of it. Returns the value of the
/// expression or why it has none, and the errors on the console.
///
/// # Errors
/// When the browser ends.
pub(crate) fn scripted(
    browser: &mut Chromium,
    url: &str,
    html: &str,
    script: &str,
    expression: &str,
    picture: &Path,
) -> Result<(Result<Value>, Vec<String>)> {
    let mut tab = browser.tab()?;
    // Grafana's tables draw the rows that are in view.
    load(&mut tab, url, &View::new((DESK.0, 2400), "light"))?;
    tab.call("Emulation.setScriptExecutionDisabled", &json!({"value": false}))?;
    let html = serde_json::to_string(html)?;
    tab.evaluate(&format!(
        "document.open();document.write({html});document.close()"
    ))?;
    let value = tab.evaluate(script).and_then(|_| tab.evaluate(expression));
    screenshot(&mut tab, picture)?;
    let errors = errors(&tab);
    tab.close()?;
    Ok((value, errors))
}

fn load(tab: &mut Tab<'_>, url: &str, view: &View) -> Result<()> {
    for domain in ["Page", "Runtime", "Log", "Network"] {
        tab.call(&format!("{domain}.enable"), &json!({}))?;
    }
    tab.call(
        "Emulation.setDeviceMetricsOverride",
        &json!({"width": view.width, "height": view.height, "deviceScaleFactor": 1, "mobile": view.is_phone()}),
    )?;
    tab.call(
        "Emulation.setEmulatedMedia",
        &json!({"features": [{"name": "prefers-color-scheme", "value": view.scheme}]}),
    )?;
    tab.call("Emulation.setScriptExecutionDisabled", &json!({"value": true}))?;
    let gone = tab.call("Page.navigate", &json!({"url": url}))?;
    if let Some(error) = gone["errorText"].as_str() {
        bail!("{url}: {error}");
    }
    tab.wait("Page.loadEventFired")
}

/// The measures of the page as it is now.
fn measure(tab: &mut Tab<'_>) -> Result<Value> {
    tab.evaluate(
        "(() => {
            const root = document.documentElement;
            const over = e => e.getBoundingClientRect().right > root.clientWidth + 1;
            const holds = e => e.scrollWidth <= e.clientWidth;
            const heading = document.querySelector('article h3');
            return {
                content: root.scrollWidth,
                window: root.clientWidth,
                height: root.scrollHeight,
                wide: [...document.querySelectorAll('body *')].filter(over).slice(0, 5).map(e => e.outerHTML.slice(0, 120)),
                spilled: [...document.querySelectorAll('.card,pre')].filter(e => !holds(e)).map(e => e.outerHTML.slice(0, 120)),
                scripts: document.scripts.length,
                closed: document.querySelectorAll('details:not([open])').length,
                verdict: document.querySelector('.verdict')?.textContent,
                incident: heading && Math.round(heading.getBoundingClientRect().bottom),
                links: [...document.links].map(a => new URL(a.href)).filter(u => u.origin == location.origin)
                    .map(u => u.pathname + u.search),
            };
        })()",
    )
}

fn number(page: &Value, name: &str) -> Result<u64> {
    page[name]
        .as_u64()
        .with_context(|| format!("no number {name}: {page}"))
}

/// Clicks on all closed parts. Returns how many there were.
fn open(tab: &mut Tab<'_>) -> Result<usize> {
    let mut opened = 0;
    // Each click moves those below.
    loop {
        let at = tab.evaluate(
            "(() => {
                const closed = document.querySelector('details:not([open]):not([data-tried]) summary');
                if (!closed) return null;
                closed.parentElement.dataset.tried = '';
                closed.scrollIntoView({block: 'center'});
                const at = closed.getBoundingClientRect();
                return {x: at.x + 20, y: at.y + at.height / 2};
            })()",
        )?;
        if at.is_null() {
            return Ok(opened);
        }
        for kind in ["mousePressed", "mouseReleased"] {
            let click = json!({"type": kind, "x": at["x"], "y": at["y"], "button": "left", "clickCount": 1});
            tab.call("Input.dispatchMouseEvent", &click)?;
        }
        opened += 1;
    }
}

fn screenshot(tab: &mut Tab<'_>, file: &Path) -> Result<()> {
    let taken = tab.call("Page.captureScreenshot", &json!({"captureBeyondViewport": true}))?;
    let data = taken["data"].as_str().context("a screenshot without data")?;
    let image = STANDARD
        .decode(data)
        .map_err(|error| anyhow!("a screenshot: {error}"))?;
    fs::write(file, image).with_context(|| file.display().to_string())
}

/// Errors on the console: of scripts, of loading, and what the page's own security policy forbids.
fn errors(tab: &Tab<'_>) -> Vec<String> {
    let logged = tab
        .events("Log.entryAdded")
        .map(|e| &e["entry"])
        .filter(|e| e["level"] == "error");
    let called = tab
        .events("Runtime.consoleAPICalled")
        .filter(|e| e["type"] == "error");
    let thrown = tab.events("Runtime.exceptionThrown");
    let all = logged.chain(called).chain(thrown);
    all.map(|e| format!("error on the console: {e}")).collect()
}

/// Requests to anything but the page's own server. A `data:` URL is no request.
fn requests(tab: &Tab<'_>, origin: &str) -> Vec<String> {
    let urls = tab
        .events("Network.requestWillBeSent")
        .filter_map(|e| e["request"]["url"].as_str());
    urls.filter(|url| !url.starts_with("data:") && !url.starts_with(&format!("{origin}/")))
        .map(|url| format!("it requests {url}"))
        .collect()
}

fn violations(result: &Value) -> Result<Vec<String>> {
    let passed = result["passes"].as_array().map_or(0, Vec::len);
    ensure!(
        passed > 10,
        "axe-core applied {passed} rules, expected more than 10"
    );
    let all = result["violations"]
        .as_array()
        .context("axe-core gave no result")?;
    let text = |violation: &Value| {
        let nodes = violation["nodes"].as_array().into_iter().flatten();
        let places: Vec<String> = nodes
            .map(|n| format!("{}: {}", n["html"], n["failureSummary"]))
            .collect();
        format!(
            "axe: {}: {}\n    {}",
            violation["id"],
            violation["help"],
            places.join("\n    ")
        )
    };
    Ok(all.iter().map(text).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_violation_is_named_with_its_place_and_no_result_is_an_error() {
        let passes = json!(vec!["rule"; 20]);
        let violation =
            json!({"id": "color-contrast", "help": "h", "nodes": [{"html": "<b>", "failureSummary": "3.1"}]});
        let found = violations(&json!({"passes": passes, "violations": [violation]})).unwrap();
        assert!(
            found[0].contains("color-contrast") && found[0].contains("<b>"),
            "{found:?}"
        );
        assert!(
            violations(&json!({"passes": passes, "violations": []}))
                .unwrap()
                .is_empty()
        );
        assert!(violations(&json!({"passes": passes})).is_err());
        assert!(violations(&json!({"passes": [], "violations": []})).is_err());
    }
}
