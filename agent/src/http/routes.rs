//! What is answered to which request.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use collectors::Tier;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::Core;
use super::connection::LONGEST;
use crate::core::snapshot::{Presence, Snapshot};
use crate::exposition::{self, Encoder, Page};

const PLAIN: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const SCRAPE_TIMEOUT: &str = "x-prometheus-scrape-timeout-seconds";

/// The deadline of a request that names none: Prometheus' default time-out less 10 %.
const DEFAULT: Duration = Duration::from_secs(9);

const LANDING: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><title>nodewarden</title></head><body>\n\
<h1>nodewarden</h1>\n<ul>\n<li><a href=\"/metrics\">Metrics</a>\n\
<li><a href=\"/metrics?tier=detail\">Metrics in detail</a>\n\
<li><a href=\"/-/healthy\">The daemon runs</a>\n<li><a href=\"/-/ready\">The node has been read</a>\n\
</ul>\n<p>The node's health: <code>nodewarden status</code></p>\n</body></html>\n";

/// What answers requests. One per server, on its thread.
pub(super) struct Routes<C> {
    core: C,
    encoder: RefCell<Encoder>,
    /// The size of the last exposition: the next one is much the same.
    size: Cell<usize>,
    late: Cell<u64>,
}

impl<C: Core> Routes<C> {
    pub(super) fn new(core: C) -> Self {
        Self {
            core,
            encoder: RefCell::default(),
            size: Cell::new(4096),
            late: Cell::new(0),
        }
    }

    pub(super) async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>> {
        let known = ["/", "/metrics", "/-/healthy", "/-/ready"].contains(&request.uri().path());
        if !known {
            return plain(StatusCode::NOT_FOUND, "not found\n");
        }
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
            response
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        match request.uri().path() {
            "/metrics" => self.metrics(request.uri().query(), request.headers()).await,
            "/-/healthy" => plain(StatusCode::OK, "the daemon runs\n"),
            "/-/ready" if ready(&self.core.page().snapshot) => plain(StatusCode::OK, "ready\n"),
            "/-/ready" => plain(StatusCode::SERVICE_UNAVAILABLE, "no worker has answered yet\n"),
            _ => response(StatusCode::OK, HTML, LANDING),
        }
    }

    async fn metrics(&self, query: Option<&str>, headers: &HeaderMap) -> Response<Full<Bytes>> {
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

/// Whether any worker has answered.
fn ready(snapshot: &Snapshot) -> bool {
    snapshot
        .collectors
        .iter()
        .any(|c| c.presence != Presence::Unknown)
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

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    response(status, PLAIN, text)
}

fn response(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests;
