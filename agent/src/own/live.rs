//! Counters of the thread that serves pages. The `prometheus` crate stores them; the text is ours.

use std::time::Duration;

use collectors::{Kind, Metric};
use prometheus::core::Collector;
use prometheus::proto;
use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts};

use super::weights::{Weighed, Weights};
use super::{LATE_SCRAPES, SCRAPE_BYTES, SCRAPE_DURATION, SCRAPES};
use exposition::Writer;

/// The counters. They start at 0 with the daemon.
#[derive(Debug)]
pub struct Live {
    scrapes: IntCounterVec,
    bytes: IntCounterVec,
    duration: HistogramVec,
    late: IntCounter,
    weights: Weights,
}

fn opts(metric: &Metric) -> Opts {
    Opts::new(metric.name, metric.help)
}

impl Live {
    /// Counters at 0.
    ///
    /// # Errors
    /// When a name of the table is invalid in Prometheus, which a test of the table finds.
    pub fn new() -> prometheus::Result<Self> {
        let buckets = match SCRAPE_DURATION.kind {
            Kind::Histogram(buckets) => buckets.bounds().to_vec(),
            Kind::Counter | Kind::Gauge | Kind::Info => Vec::new(),
        };
        let duration = HistogramOpts::from(opts(&SCRAPE_DURATION)).buckets(buckets);
        Ok(Self {
            scrapes: IntCounterVec::new(opts(&SCRAPES), SCRAPES.labels)?,
            bytes: IntCounterVec::new(opts(&SCRAPE_BYTES), SCRAPE_BYTES.labels)?,
            duration: HistogramVec::new(duration, SCRAPE_DURATION.labels)?,
            late: IntCounter::with_opts(opts(&LATE_SCRAPES))?,
            weights: Weights::default(),
        })
    }

    /// A request for `page` was answered with a body of `bytes`. `page` must be one of our names: with names from
    /// clients, each would be a series.
    pub fn answered(&self, page: &'static str, code: u16, took: Duration, bytes: u64) {
        self.scrapes.with_label_values(&[page, &code.to_string()]).inc();
        self.bytes.with_label_values(&[page]).inc_by(bytes);
        self.duration
            .with_label_values(&[page])
            .observe(took.as_secs_f64());
    }

    /// A scrape was answered from an earlier reading.
    pub fn late(&self) {
        self.late.inc();
    }

    /// The resource usage of parent and daemon.
    pub(super) fn weighed(&self) -> Weighed {
        self.weights.of_now()
    }

    pub(super) fn render(&self, w: &mut Writer<'_>) {
        for (metric, stored) in [(&SCRAPES, &self.scrapes), (&SCRAPE_BYTES, &self.bytes)] {
            w.family(metric, |f| {
                each(metric, &stored.collect(), |labels, m| {
                    let value = m.get_counter().get_value();
                    f.put(labels, collectors::Value::F64(value));
                });
            });
        }
        w.family(&SCRAPE_DURATION, |f| {
            each(&SCRAPE_DURATION, &self.duration.collect(), |labels, m| {
                let seen = m.get_histogram();
                let buckets = seen.get_bucket().iter().filter(|b| b.upper_bound().is_finite());
                let (sum, count) = (seen.get_sample_sum(), seen.get_sample_count());
                f.histogram(labels, buckets.map(proto::Bucket::cumulative_count), sum, count);
            });
        });
        w.family(&LATE_SCRAPES, |f| f.u64(&[], self.late.get()));
    }
}

/// Reads the stored counters, in a stable order and with the labels in ours.
fn each(metric: &Metric, stored: &[proto::MetricFamily], mut take: impl FnMut(&[&str], &proto::Metric)) {
    let mut rows: Vec<(Vec<&str>, &proto::Metric)> = stored
        .iter()
        .flat_map(proto::MetricFamily::get_metric)
        .map(|m| {
            let value = |name: &&str| m.get_label().iter().find(|l| l.name() == *name);
            let labels = metric.labels.iter().map(|l| value(l).map_or("", |l| l.value()));
            (labels.collect(), m)
        })
        .collect();
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    for (labels, m) in rows {
        take(&labels, m);
    }
}
