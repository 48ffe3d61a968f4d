//! `/metrics` and `/metrics/<page>`: page, format and deadline.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue, VARY};
use hyper::{Response, StatusCode};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::{PLAIN, Routes, response};
use crate::http::Core;
use crate::http::connection::LONGEST;
use crate::own::live::Live;
use crate::own::{Page, Served};
use exposition::encoder::METRICS;
use exposition::gzip::{self, Gzip};
use exposition::negotiate::gzip_accepted;
use exposition::{Encoder, Format, Selection};
use model::filter::Filter;

const SCRAPE_TIMEOUT: &str = "x-prometheus-scrape-timeout-seconds";

/// The deadline of a request that names none: Prometheus' default time-out less 10 %.
const DEFAULT: Duration = Duration::from_secs(9);

/// Label for unknown pages: clients choose their names, and each would be a series.
const UNKNOWN: &str = "unknown";

/// Limit of the text buffer kept for the next page, in bytes, if it was much too large for the last one.
const KEEP: usize = 1024 * 1024;

/// State kept between scrapes.
pub(super) struct Scrapes {
    encoder: Encoder,
    gzip: Option<Gzip>,
    text: Vec<u8>,
    live: Option<Live>,
}

impl Scrapes {
    pub(super) fn new() -> Self {
        let live = Live::new().inspect_err(|error| tracing::error!(%error, "cannot count own metrics"));
        Self {
            encoder: Encoder::default(),
            gzip: None,
            text: Vec::new(),
            live: live.ok(),
        }
    }

    /// Writes a page. `name`: one of the compatibility pages.
    fn write(&mut self, page: &Page, name: Option<&'static str>, asked: &MetricsQuery) -> (Vec<u8>, bool) {
        self.text.clear();
        let (selection, format, out) = (&asked.selection, asked.format, &mut self.text);
        match &self.live {
            Some(live) => self
                .encoder
                .page(name, &Served(page, live), selection, format, out),
            None => self.encoder.page(name, page, selection, format, out),
        }
        if asked.gzip && self.text.len() >= gzip::WORTH {
            let gzip = self.gzip.get_or_insert_with(Gzip::default);
            let packed = gzip.gzip(&self.text);
            if packed.is_none() {
                tracing::error!("cannot compress the page; sending it uncompressed");
            }
            if let Some(body) = packed {
                if self.text.capacity() > KEEP.max(self.text.len() * 4) {
                    self.text.shrink_to(self.text.len());
                }
                return (body, true);
            }
        }
        let next = Vec::with_capacity(self.text.len() + 1024);
        (std::mem::replace(&mut self.text, next), false)
    }
}

/// The parameters of a request.
struct MetricsQuery {
    selection: Selection,
    format: Format,
    gzip: bool,
}

impl<C: Core> Routes<C> {
    /// `path` is `/metrics` or begins with `/metrics/`.
    pub(super) async fn metrics(
        &self,
        path: &str,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Response<Full<Bytes>> {
        let began = Instant::now();
        let (name, answer) = match self.asked(path, query, headers) {
            Ok((name, asked)) => {
                let page = self.fresh(began + budget(headers), &asked.selection.filter).await;
                let (body, packed) = self.scrapes.borrow_mut().write(&page, name, &asked);
                let mut answer = response(StatusCode::OK, asked.format.content_type(), body);
                if packed {
                    let gzip = HeaderValue::from_static("gzip");
                    answer.headers_mut().insert(CONTENT_ENCODING, gzip);
                }
                // Otherwise a cache could give one scraper another one's answer.
                let vary = HeaderValue::from_static("Accept, Accept-Encoding");
                answer.headers_mut().insert(VARY, vary);
                (name.unwrap_or(METRICS), answer)
            }
            Err((name, status, why)) => (name, response(status, PLAIN, format!("{why}\n"))),
        };
        if let Some(live) = &self.scrapes.borrow().live {
            let bytes = hyper::body::Body::size_hint(answer.body()).exact().unwrap_or(0);
            live.answered(name, answer.status().as_u16(), began.elapsed(), bytes);
        }
        answer
    }

    fn asked(
        &self,
        path: &str,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<(Option<&'static str>, MetricsQuery), (&'static str, StatusCode, String)> {
        let last = self.core.page();
        let name = match path.strip_prefix("/metrics/") {
            None => None,
            Some(wanted) => {
                let pages = Encoder::pages(&last.snapshot);
                let Some(page) = pages.iter().copied().find(|p| *p == wanted) else {
                    let there = pages
                        .iter()
                        .fold("/metrics".to_owned(), |all, p| all + ", /metrics/" + p);
                    let why = format!("no such page, expected one of {there}");
                    return Err((UNKNOWN, StatusCode::NOT_FOUND, why));
                };
                Some(page)
            }
        };
        let known: Vec<&str> = last.snapshot.collectors.iter().map(|c| c.spec.name).collect();
        let selection = Selection::parse(query.unwrap_or_default(), &known)
            .map_err(|why| (name.unwrap_or(METRICS), StatusCode::BAD_REQUEST, why))?;
        let asked = MetricsQuery {
            selection,
            // The programs that other pages stand for have the text format only, and names of counters that OpenMetrics
            // does not allow.
            format: match name {
                None => Format::accepted(&joined(headers, &ACCEPT)),
                Some(_) => Format::Text,
            },
            gzip: gzip_accepted(&joined(headers, &ACCEPT_ENCODING)),
        };
        Ok((name, asked))
    }

    /// A fresh page, or the last one without values that have become too old since.
    async fn fresh(&self, deadline: Instant, filter: &Filter) -> Arc<Page> {
        let (reply, answer) = oneshot::channel();
        self.core.scrape(deadline, filter, reply);
        if let Ok(Ok(page)) = timeout_at(deadline.into(), answer).await {
            return page;
        }
        if let Some(live) = &self.scrapes.borrow().live {
            live.late();
        }
        let mut page = Page::clone(&self.core.page());
        page.snapshot = Arc::new(page.snapshot.as_of(self.core.now()));
        Arc::new(page)
    }
}

/// All values of a header as one list (RFC 9110, 5.2). Values that are not text are ignored.
fn joined(headers: &HeaderMap, name: &HeaderName) -> String {
    let values = headers.get_all(name).into_iter().filter_map(|v| v.to_str().ok());
    values.collect::<Vec<&str>>().join(",")
}

/// The scraper's time-out, less a tenth for the way back.
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
