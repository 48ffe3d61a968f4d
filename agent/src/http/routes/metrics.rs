//! `/metrics`: which page, in which format, by when.

use std::sync::Arc;
use std::time::{Duration, Instant};

use collectors::Tier;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::HeaderMap;
use hyper::{Response, StatusCode};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::{Routes, plain, response};
use crate::core::snapshot::Snapshot;
use crate::exposition::{self, Page};
use crate::http::Core;
use crate::http::connection::LONGEST;

const SCRAPE_TIMEOUT: &str = "x-prometheus-scrape-timeout-seconds";

/// The deadline of a request that names none: Prometheus' default time-out less 10 %.
const DEFAULT: Duration = Duration::from_secs(9);

impl<C: Core> Routes<C> {
    pub(super) async fn metrics(&self, query: Option<&str>, headers: &HeaderMap) -> Response<Full<Bytes>> {
        let Some(tier) = tier(query) else {
            return plain(StatusCode::BAD_REQUEST, "tier: expected core, detail or debug\n");
        };
        let page = self.page(Instant::now() + budget(headers)).await;
        let mut out = String::with_capacity(self.size.get() + 1024);
        self.encoder.borrow_mut().page(&page, tier, &mut out);
        self.size.set(out.len());
        response(StatusCode::OK, exposition::CONTENT_TYPE, out)
    }

    /// A fresh page, or the last one with what has become too old since taken out.
    async fn page(&self, deadline: Instant) -> Page {
        let (reply, answer) = oneshot::channel();
        self.core.scrape(deadline, reply);
        let mut page = match timeout_at(deadline.into(), answer).await {
            Ok(Ok(page)) => Page::clone(&page),
            Ok(Err(_)) | Err(_) => {
                self.late.set(self.late.get() + 1);
                let mut page = Page::clone(&self.core.page());
                page.snapshot = Arc::new(Snapshot {
                    at: self.core.now().max(page.snapshot.at),
                    ..Snapshot::clone(&page.snapshot)
                });
                page
            }
        };
        page.facts.late_scrapes = self.late.get();
        page
    }
}

fn tier(query: Option<&str>) -> Option<Tier> {
    let asked = query
        .unwrap_or_default()
        .split('&')
        .find_map(|pair| pair.strip_prefix("tier="));
    asked.map_or(Some(Tier::Core), exposition::tier)
}

/// The time that the scraper leaves, less a tenth for the way back.
fn budget(headers: &HeaderMap) -> Duration {
    headers
        .get(SCRAPE_TIMEOUT)
        .and_then(|v| v.to_str().ok()?.trim().parse::<f64>().ok())
        .filter(|seconds| *seconds > 0.0)
        .and_then(|seconds| Duration::try_from_secs_f64(seconds.min(1e6) * 0.9).ok())
        .map_or(DEFAULT, |d| d.min(LONGEST))
}

#[cfg(test)]
mod tests;
