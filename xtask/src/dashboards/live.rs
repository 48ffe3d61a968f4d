//! Every query of the written dashboards and of docs/operations/promql.md, on a real Prometheus that scrapes the demo's fleet.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::http;
use testkit::prometheus::Prometheus;

use super::{DASHBOARDS, check, json, recipes};

/// A query and where it stands.
struct Query {
    /// Dashboard, row, panel and legend; or the question.
    place: String,
    ask: Ask,
    /// A rate over time, of which a line that is always 0 shows nothing.
    moves: bool,
}

#[derive(Debug, PartialEq)]
enum Ask {
    Expr(String),
    /// The values of a label, as Grafana asks for them.
    Values {
        series: String,
        label: String,
    },
}

/// A query without an answer on the fleet.
struct Empty {
    place: &'static str,
    why: &'static str,
}

/// `agent/tests/spine` tests the series of drains and limits on a real slurmctld.
const NO_SLURM: &str =
    "nodewarden writes nothing to Slurm for a recorded node, so it neither drains nor counts slots";
/// `agent/tests/mounts` tests them with a FUSE mount that hangs, which needs root.
const NO_HANG: &str = "a demo leaves no thread behind that waits in the kernel";
/// A play interpolates text, and the table of an AMD GPU is binary.
const STILL: &str = "the recorded counters of AMD GPUs do not move";

static EMPTY: &[Empty] = &[
    Empty {
        place: "Which GPUs are allocated to a job and idle?",
        why: "jobs of the demo are younger than 10 min",
    },
    Empty {
        place: "nodewarden-drains, Drains, Drains by check, drains",
        why: NO_SLURM,
    },
    Empty {
        place: "nodewarden-drains, Limits, Standing drains of a partition, {{cluster}} {{partition}}",
        why: NO_SLURM,
    },
    Empty {
        place: "nodewarden-drains, Limits, Standing drains of a partition, {{cluster}} {{partition}} limit",
        why: NO_SLURM,
    },
    Empty {
        place: "nodewarden-drains, Limits, Slots taken, {{cluster}} {{partition}} {{pool}}",
        why: NO_SLURM,
    },
    Empty {
        place: "nodewarden-gpu, Links and errors, NVLink and XGMI, {{instance}} GPU {{index}} written",
        why: STILL,
    },
    Empty {
        place: "nodewarden-gpu, Links and errors, NVLink and XGMI, {{instance}} GPU {{index}} read",
        why: STILL,
    },
    Empty {
        place: "nodewarden-storage, All filesystems, Without an answer, {{cluster}} {{subject}}",
        why: NO_HANG,
    },
    Empty {
        place: "nodewarden-agent, Readings, Readings without an answer, {{instance}} {{collector}} {{subject}}",
        why: NO_HANG,
    },
    Empty {
        place: "nodewarden-storage, NVMe drives, Media errors, {{instance}} {{device}}",
        why: "the recorded SMART logs do not change",
    },
    Empty {
        place: "nodewarden-agent, Faults of nodewarden, Lost records of the kernel log, {{instance}}",
        why: "the kernel overwrites no record of a recorded log",
    },
];

/// All queries, from the text of the files: what Grafana reads is tested.
fn queries() -> Result<Vec<Query>> {
    let mut list = Vec::new();
    for dashboard in DASHBOARDS {
        let file: Value = serde_json::from_str(&json::text(dashboard)?)?;
        let uid = dashboard.uid;
        let array = |value: &Value| value.as_array().cloned().unwrap_or_default();
        for variable in array(&file["templating"]["list"]) {
            if let Some(definition) = variable["query"]["query"].as_str() {
                list.push(Query {
                    place: format!("{uid}, variable {}", text(&variable["name"])),
                    ask: values(definition)?,
                    moves: false,
                });
            }
        }
        let mut row = String::new();
        for panel in array(&file["panels"]) {
            if panel["type"] == "row" {
                row = text(&panel["title"]);
            }
            for target in array(&panel["targets"]) {
                let expr = text(&target["expr"]);
                let of_panel = format!("{uid}, {row}, {}", text(&panel["title"]));
                list.push(Query {
                    place: place(&of_panel, &text(&target["legendFormat"])),
                    moves: panel["type"] == "timeseries" && expr.contains("rate("),
                    ask: Ask::Expr(check::filled(&expr)),
                });
            }
        }
    }
    for recipe in recipes::RECIPES {
        list.push(Query {
            place: recipe.question.to_owned(),
            ask: Ask::Expr(recipe.expr.to_owned()),
            moves: false,
        });
    }
    Ok(list)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Grafana's `label_values(SERIES, LABEL)`.
fn values(definition: &str) -> Result<Ask> {
    let inside = definition
        .strip_prefix("label_values(")
        .and_then(|d| d.strip_suffix(')'));
    let (series, label) = inside
        .and_then(|d| d.rsplit_once(", "))
        .with_context(|| format!("{definition}: expected label_values(SERIES, LABEL)"))?;
    Ok(Ask::Values {
        series: check::filled(series),
        label: label.to_owned(),
    })
}

/// Whether there is an answer: a number, and one above 0 if it must move.
fn is_answered(numbers: &[f64], moves: bool) -> bool {
    numbers.iter().any(|n| !n.is_nan() && (!moves || *n > 0.0))
}

/// Queries that fail, that have no answer and are not in the list of those, and entries of that list that have one.
///
/// # Errors
/// When a query cannot be made.
pub(crate) fn problems(prometheus: &Prometheus) -> Result<(usize, Vec<String>)> {
    let queries = queries()?;
    let mut problems = Vec::new();
    for query in &queries {
        let answered = match &query.ask {
            Ask::Expr(expr) => prometheus.query(expr).map(|found| {
                let numbers: Vec<f64> = found.iter().map(|(_, number)| *number).collect();
                is_answered(&numbers, query.moves)
            }),
            Ask::Values { series, label } => {
                let series = http::encode(series);
                let found = prometheus.api(&format!("/api/v1/label/{label}/values?match[]={series}"));
                found.map(|list| list.as_array().is_some_and(|list| !list.is_empty()))
            }
        };
        let excused = EMPTY.iter().find(|empty| empty.place == query.place);
        match (answered, excused) {
            (Err(error), _) => problems.push(format!("{}: {error:#}", query.place)),
            (Ok(false), None) => problems.push(format!("{}: no answer", query.place)),
            (Ok(true), Some(empty)) => problems.push(format!(
                "{}: has an answer, but is listed as empty ({})",
                query.place, empty.why
            )),
            (Ok(true), None) | (Ok(false), Some(_)) => {}
        }
    }
    Ok((queries.len(), problems))
}

/// Where a query stands: its panel, and its legend if it has one.
pub(super) fn place(panel: &str, legend: &str) -> String {
    match legend {
        "" => panel.to_owned(),
        legend => format!("{panel}, {legend}"),
    }
}

/// Whether the query at this place may have no answer.
pub(super) fn may_be_empty(place: &str) -> bool {
    EMPTY.iter().any(|empty| empty.place == place)
}

/// Fails for an entry of the list of empty queries that names no query, or several, and for one that stands there twice.
pub(super) fn unknown() -> Result<()> {
    let queries = queries()?;
    let mut seen = BTreeSet::new();
    for empty in EMPTY {
        let count = queries.iter().filter(|query| query.place == empty.place).count();
        ensure!(
            count == 1,
            "{}: listed as empty, but {count} queries have this place, expected 1",
            empty.place
        );
        ensure!(seen.insert(empty.place), "{}: listed twice", empty.place);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_of_the_empty_queries_names_one() {
        unknown().unwrap();
    }

    #[test]
    fn no_variable_is_left_in_a_query() {
        for query in queries().unwrap() {
            assert!(
                !format!("{:?}", query.ask).contains('$'),
                "{}: {:?}",
                query.place,
                query.ask
            );
        }
    }

    #[test]
    fn a_variable_asks_for_the_values_of_a_label() {
        let found =
            values("label_values(gpu_info{cluster=~\"$cluster\",instance=~\"$instance\"}, gpu)").unwrap();
        let series = "gpu_info{cluster=~\".*\",instance=~\".*\"}".to_owned();
        assert_eq!(
            found,
            Ask::Values {
                series,
                label: "gpu".to_owned()
            }
        );
        assert!(values("query_result(up)").is_err());
    }

    #[test]
    fn nothing_nan_and_a_rate_of_zero_are_no_answer() {
        assert!(!is_answered(&[], false) && !is_answered(&[f64::NAN], false));
        assert!(is_answered(&[0.0], false) && !is_answered(&[0.0], true));
        assert!(is_answered(&[f64::NAN, 2.0], true));
    }
}
