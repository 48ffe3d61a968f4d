//! Requests and their answers.

mod host;
mod metrics;

use std::cell::RefCell;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue, REFERRER_POLICY,
    RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode, Version};

use super::Core;
use super::document;
use super::runbooks::{self, Runbook};
use super::status::{self, StatusReport};
use model::snapshot::{Presence, Snapshot};

/// The pages.
const PAGES: [&str; 5] = ["/", "/api/v1/status", "/metrics", "/-/healthy", "/-/ready"];

const PLAIN: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

/// Answers requests. One per server, on its thread.
pub(super) struct Routes<C> {
    core: C,
    scrapes: RefCell<metrics::Scrapes>,
    names: host::LoopbackNames,
}

impl<C: Core> Routes<C> {
    pub(super) fn new(core: C) -> Self {
        Self {
            core,
            scrapes: RefCell::new(metrics::Scrapes::new()),
            names: host::LoopbackNames::read(),
        }
    }

    /// `loopback`: the client connected to a loopback address.
    pub(super) async fn answer<B>(&self, request: Request<B>, loopback: bool) -> Response<Full<Bytes>> {
        if let Some(refusal) = refuse(&request, loopback, &self.names) {
            return refusal;
        }
        let path = request.uri().path();
        match path {
            _ if path == "/metrics" || path.starts_with("/metrics/") => {
                let (query, headers) = (request.uri().query(), request.headers());
                self.metrics(path, query, headers).await
            }
            "/-/healthy" => plain(StatusCode::OK, "the daemon runs\n"),
            "/-/ready" if ready(&self.core.page().snapshot) => plain(StatusCode::OK, "ready\n"),
            "/-/ready" => plain(StatusCode::SERVICE_UNAVAILABLE, "no worker has answered yet\n"),
            "/api/v1/status" => self.status_json(),
            _ => match runbooks::at(path) {
                Some(runbook) => runbook_page(runbook),
                None => self.status_page(request.uri().query()),
            },
        }
    }
}

impl<C: Core> Routes<C> {
    fn report(&self) -> StatusReport {
        let host = nix::unistd::gethostname().ok().and_then(|h| h.into_string().ok());
        let wall = jiff::Timestamp::now().as_second();
        StatusReport::of(&self.core.page(), self.core.now(), wall, host.unwrap_or_default())
    }

    fn status_page(&self, query: Option<&str>) -> Response<Full<Bytes>> {
        let still = query == Some(status::STILL);
        html(status::render(&self.report(), still), "no-store")
    }

    fn status_json(&self) -> Response<Full<Bytes>> {
        match self.report().json() {
            Ok(text) => response(StatusCode::OK, JSON, text),
            Err(error) => {
                tracing::error!(%error, "cannot write the status as JSON");
                plain(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "cannot write the status as JSON\n",
                )
            }
        }
    }
}

/// It changes with the program only.
fn runbook_page(runbook: &Runbook) -> Response<Full<Bytes>> {
    html(runbooks::render(runbook), "max-age=3600")
}

fn html(page: String, cache: &'static str) -> Response<Full<Bytes>> {
    let mut page = response(StatusCode::OK, HTML, page);
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, document::CONTENT_SECURITY_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, cache),
    ] {
        page.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    page
}

/// The answer to an invalid request, for all pages.
fn refuse<B>(
    request: &Request<B>,
    loopback: bool,
    names: &host::LoopbackNames,
) -> Option<Response<Full<Bytes>>> {
    let own = [Method::GET, Method::HEAD];
    let standard = [
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::OPTIONS,
        Method::TRACE,
        Method::CONNECT,
        Method::PATCH,
    ];
    let path = request.uri().path();
    if request.version() == Version::HTTP_11 && !request.headers().contains_key(HOST) {
        return Some(plain(StatusCode::BAD_REQUEST, "a request needs a Host header\n"));
    }
    if loopback && !host::is_own(request, names) {
        return Some(plain(StatusCode::MISDIRECTED_REQUEST, host::MISDIRECTED));
    }
    if !own.contains(request.method()) && !standard.contains(request.method()) {
        return Some(plain(StatusCode::NOT_IMPLEMENTED, "unknown method\n"));
    }
    // `OPTIONS *` and `CONNECT host:port` name no page.
    if !is_page(path) && path.starts_with('/') {
        return Some(plain(StatusCode::NOT_FOUND, "not found\n"));
    }
    if !own.contains(request.method()) {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
        response
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(response);
    }
    // A target such as `GET *`.
    (!is_page(path)).then(|| plain(StatusCode::BAD_REQUEST, "expected a path\n"))
}

/// The answer to a request without user and password, to a wrong one, and to one of an unknown user: always the same.
pub(super) fn unauthorized() -> Response<Full<Bytes>> {
    let mut response = plain(StatusCode::UNAUTHORIZED, "unauthorized\n");
    response
        .headers_mut()
        .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
    response
}

/// The answer to a password that is not compared now.
pub(super) fn too_many_passwords() -> Response<Full<Bytes>> {
    let mut response = plain(
        StatusCode::TOO_MANY_REQUESTS,
        "other passwords are being compared, try again\n",
    );
    response
        .headers_mut()
        .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// Whether the page exists; the pages of other exporters are known to the encoder.
fn is_page(path: &str) -> bool {
    PAGES.contains(&path) || path.starts_with("/metrics/") || runbooks::at(path).is_some()
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
