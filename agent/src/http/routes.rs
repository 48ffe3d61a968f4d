//! What is answered to which request.

mod metrics;

use std::cell::RefCell;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use super::Core;
use crate::core::snapshot::{Presence, Snapshot};

const PLAIN: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const LANDING: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><title>nodewarden</title></head><body>\n\
<h1>nodewarden</h1>\n<ul>\n<li><a href=\"/metrics\">Metrics</a>\n\
<li><a href=\"/metrics?tier=detail\">Metrics in detail</a>\n\
<li><a href=\"/-/healthy\">The daemon runs</a>\n<li><a href=\"/-/ready\">The node has been read</a>\n\
</ul>\n<p>The node's health: <code>nodewarden status</code></p>\n</body></html>\n";

/// What answers requests. One per server, on its thread.
pub(super) struct Routes<C> {
    core: C,
    scrapes: RefCell<metrics::Scrapes>,
}

impl<C: Core> Routes<C> {
    pub(super) fn new(core: C) -> Self {
        Self {
            core,
            scrapes: RefCell::new(metrics::Scrapes::new()),
        }
    }

    pub(super) async fn answer<B>(&self, request: Request<B>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let known =
            ["/", "/metrics", "/-/healthy", "/-/ready"].contains(&path) || path.starts_with("/metrics/");
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
        match path {
            _ if path.starts_with("/metrics") => {
                let (query, headers) = (request.uri().query(), request.headers());
                self.metrics(path, query, headers).await
            }
            "/-/healthy" => plain(StatusCode::OK, "the daemon runs\n"),
            "/-/ready" if ready(&self.core.page().snapshot) => plain(StatusCode::OK, "ready\n"),
            "/-/ready" => plain(StatusCode::SERVICE_UNAVAILABLE, "no worker has answered yet\n"),
            _ => response(StatusCode::OK, HTML, LANDING),
        }
    }
}

/// Whether any worker has answered.
fn ready(snapshot: &Snapshot) -> bool {
    snapshot
        .collectors
        .iter()
        .any(|c| c.presence != Presence::Unknown)
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
