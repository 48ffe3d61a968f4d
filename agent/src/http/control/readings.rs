//! The answer to `readings`: the page of metrics, for `nodewarden bundle`. The port may ask for a certificate or a password; this
//! socket knows its user.

use std::sync::Arc;
use std::time::{Duration, Instant};

use collectors::Tier;
use exposition::{Encoder, Format, Selection};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::{NOT_UTF8, Reply};
use crate::http::Core;
use crate::own::Page;

/// Time for fresh readings; later, the last ones are shown.
const FRESH: Duration = Duration::from_secs(2);

/// The page with the tiers core and detail.
pub(super) async fn of<C: Core>(core: &C) -> Reply {
    let selection = Selection {
        tier: Some(Tier::Detail),
        ..Selection::default()
    };
    let (reply, answer) = oneshot::channel();
    core.scrape(Instant::now() + FRESH, &selection.filter, reply);
    let page = match timeout(FRESH, answer).await {
        Ok(Ok(page)) => page,
        _ => {
            let mut page = Page::clone(&core.page());
            page.snapshot = Arc::new(page.snapshot.as_of(core.now()));
            Arc::new(page)
        }
    };
    let mut out = Vec::new();
    Encoder::default().page(None, page.as_ref(), &selection, Format::Text, &mut out);
    match String::from_utf8(out) {
        Ok(text) => Reply::Readings(text),
        Err(_) => Reply::Refused(NOT_UTF8.to_owned()),
    }
}
