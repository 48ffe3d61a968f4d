//! The frame of the HTML pages: without scripts or external resources.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("page.css");

/// Nothing may be loaded or sent, and only our own style (by its digest) applies. The image is the empty icon, without
/// which browsers ask for /favicon.ico.
pub(super) const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; \
     style-src 'sha256-9PllkXn5a+9644m64aZsYdrz1MdXyMh2Z1SZWdNzhk0='; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A page. `refresh`: how often a browser loads it again, in seconds.
pub(super) fn document(title: &str, refresh: Option<u32>, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width,initial-scale=1";
                @if let Some(seconds) = refresh { meta http-equiv="refresh" content=(seconds); }
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    page.into_string()
}
