//! Results as one page that needs nothing else: no script, no font, no picture from outside.
//!
//! Ratio bars, throughput by threads, latency percentiles, the tables with what single benchmarks
//! alone measure and with what was counted, and how to repeat the run.
//!
//! P1. Whatever comes from outside of this program is escaped.
//!
//! Threads: plain functions. Tests: `tests/run.rs`.

use super::svg::{self, Bar, Line, Scale, escaped};
use super::text;
use crate::result::{Latencies, Results, Spread, float};
use std::fmt::Write;
use velella_cli::human;
use velella_cli::table::{Side, Table};

const STYLE: &str = "\
:root{--ink:#1d2733;--soft:#5d6b79;--grid:#e3e8ee;--card:#fff;--page:#f6f8fa}\
@media(prefers-color-scheme:dark){:root{--ink:#e4eaf1;--soft:#9aa8b6;--grid:#323c47;--card:#1b222b;--page:#12171d}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif}\
main{max-width:1000px;margin:0 auto;padding:28px 20px 60px}\
h1{font-size:24px;margin:0 0 4px}h2{font-size:17px;margin:34px 0 6px}\
p{margin:4px 0;color:var(--soft)}\
code{font:13px ui-monospace,monospace;color:var(--ink);overflow-wrap:anywhere}\
.legend{display:flex;flex-wrap:wrap;gap:6px 18px;margin:14px 0;padding:0;list-style:none}\
.legend svg{width:34px;height:12px;margin-right:6px;vertical-align:-1px}\
.grid-of{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:12px}\
.card{background:var(--card);border:1px solid var(--grid);border-radius:8px;padding:10px}\
.card svg{display:block;width:100%;height:auto}\
.wide{display:grid;grid-template-columns:repeat(auto-fill,minmax(460px,1fr));gap:12px}\
svg text{font:11px system-ui,sans-serif;fill:var(--ink)}\
svg .heading{font-size:13px;font-weight:600}svg .tick{fill:var(--soft);font-size:10px}\
svg .grid{stroke:var(--grid)}svg .one{stroke:var(--soft);stroke-width:1.4}\
svg .line{fill:none;stroke-width:2}svg .whisker{stroke:var(--ink);stroke-width:1.4}\
svg .value{font-variant-numeric:tabular-nums}\
.scroll{overflow-x:auto}\
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}\
th,td{padding:4px 10px;border-bottom:1px solid var(--grid);text-align:right;white-space:nowrap}\
th:first-child,td:first-child,.left{text-align:left}\
summary{cursor:pointer;font-size:17px;font-weight:600;margin:34px 0 6px}\
th{color:var(--soft);font-weight:600}td.best{font-weight:700}";

/// The page.
#[must_use]
pub fn page(results: &Results) -> String {
    let mut html =
        String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.push_str("<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">");
    html.push_str("<title>Velella benchmarks</title>");
    let _ = write!(html, "<style>{STYLE}</style></head><body><main>");
    head(results, &mut html);
    if results.stores.len() > 1 {
        ratio_section(results, &mut html);
    }
    throughput_section(results, &mut html);
    latency_section(results, &mut html);
    table_section(results, &mut html);
    figure_section(results, &mut html);
    foot(results, &mut html);
    html.push_str("</main></body></html>\n");
    html
}

fn head(results: &Results, html: &mut String) {
    html.push_str("<h1>Velella beside its peers</h1>");
    let _ = write!(html, "<p>{}</p>", escaped(&results.machine));
    for line in text::settings(results) {
        let _ = write!(html, "<p>{}</p>", escaped(&line));
    }
    let _ = write!(html, "<p><code>{}</code></p>", escaped(&results.command));
    html.push_str("<ul class=\"legend\">");
    for (index, store) in results.stores.iter().enumerate() {
        let _ = write!(html, "<li>{}{}</li>", svg::sample(index), escaped(store));
    }
    html.push_str("</ul>");
}

/// Every number of threads with which `benchmark` was measured.
fn threads_of(results: &Results, benchmark: &str) -> Vec<u64> {
    let measured = |threads: &&u64| {
        let mut all = results.measurements.iter();
        all.any(|one| one.benchmark == benchmark && one.threads == **threads)
    };
    results.threads.iter().filter(measured).copied().collect()
}

fn names(results: &Results) -> impl Iterator<Item = &str> {
    let all = results.specs.iter().map(|spec| spec.name.as_str());
    all.filter(|name| !threads_of(results, name).is_empty())
}

fn ratio_section(results: &Results, html: &mut String) {
    let title = text::ratio_title(results, "the store named above a chart");
    let _ = write!(
        html,
        "<h2>Ratios</h2><p>{}. Bars to the right: faster; to the left: slower. The line \
         through a bar is the range of the rounds.</p>",
        escaped(&title)
    );
    let mut charts = Vec::new();
    for name in names(results) {
        let mut bars = Vec::new();
        for threads in threads_of(results, name) {
            for (index, store) in results.stores.iter().enumerate() {
                if let Some(ratio) = results.ratio(name, store, threads) {
                    bars.push(Bar {
                        label: format!("{store}, {}", human::counted(threads, "thread")),
                        color: index,
                        value: ratio.median,
                        least: ratio.least,
                        greatest: ratio.greatest,
                    });
                }
            }
        }
        // Where rows compare different stores, each says which.
        let title = match (results.ours_of_all(), results.ours(name)) {
            (None, Some(ours)) => format!("{name}: {ours} beside others"),
            _ => name.to_owned(),
        };
        charts.push((title, bars));
    }
    let all = || charts.iter().flat_map(|(_, bars)| bars);
    let bound = all().fold(2.0, |bound: f64, bar| {
        bound.max(bar.greatest).max(1.0 / bar.least.max(1e-9))
    });
    html.push_str("<div class=\"wide\">");
    for (name, bars) in charts.iter().filter(|(_, bars)| !bars.is_empty()) {
        // Beyond a factor of 64 nobody compares lengths.
        let chart = svg::ratios(name, bars, bound.min(64.0));
        let _ = write!(html, "<div class=\"card\">{chart}</div>");
    }
    html.push_str("</div>");
}

fn throughput_section(results: &Results, html: &mut String) {
    html.push_str("<h2>Operations per second, by number of threads</h2><div class=\"grid-of\">");
    for name in names(results) {
        let threads = threads_of(results, name);
        let places: Vec<String> = threads.iter().map(u64::to_string).collect();
        let line = |(index, store): (usize, &'_ String)| {
            let rate = |threads: &u64| results.rate(name, store, *threads);
            (index, threads.iter().map(rate).collect::<Vec<_>>())
        };
        let values: Vec<(usize, Vec<Option<Spread>>)> =
            results.stores.iter().enumerate().map(line).collect();
        let lines = values.into_iter().map(|(index, values)| Line {
            name: &results.stores[index],
            color: index,
            values: values
                .into_iter()
                .map(|rate| rate.map(|rate| rate.median))
                .collect(),
        });
        let lines: Vec<Line<'_>> = lines.filter(has_values).collect();
        let chart = svg::lines(name, &places, &lines, Scale::Linear, rate);
        let _ = write!(html, "<div class=\"card\">{chart}</div>");
    }
    html.push_str("</div>");
}

fn has_values(line: &Line<'_>) -> bool {
    line.values.iter().any(Option::is_some)
}

fn latency_section(results: &Results, html: &mut String) {
    let mut charts = String::new();
    for name in names(results) {
        let Some(&threads) = threads_of(results, name).last() else {
            continue;
        };
        let mut lines = Vec::new();
        for (index, store) in results.stores.iter().enumerate() {
            let all = results.of(name, store, threads).map(|one| &one.latencies);
            let all: Vec<&Latencies> = all.filter(|one| one.count > 0).collect();
            let middle = |of: fn(&Latencies) -> u64| {
                let values = all.iter().map(|one| float(of(one)));
                Spread::of(values).map(|spread| spread.median)
            };
            lines.push(Line {
                name: store,
                color: index,
                values: vec![
                    middle(|one| one.p50_ns),
                    middle(|one| one.p90_ns),
                    middle(|one| one.p99_ns),
                    middle(|one| one.p999_ns),
                    middle(|one| one.max_ns),
                ],
            });
        }
        lines.retain(has_values);
        if lines.is_empty() {
            continue;
        }
        let places = ["p50", "p90", "p99", "p99.9", "max"].map(str::to_owned);
        let title = format!("{name}, {}", human::counted(threads, "thread"));
        let chart = svg::lines(&title, &places, &lines, Scale::Logarithmic, time);
        let _ = write!(charts, "<div class=\"card\">{chart}</div>");
    }
    if !charts.is_empty() {
        let _ = write!(
            html,
            "<h2>Latency, by percentile</h2><div class=\"grid-of\">{charts}</div>"
        );
    }
}

fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate >= 1e6 => trimmed(rate / 1e6, " M"),
        rate if rate >= 1e3 => trimmed(rate / 1e3, " k"),
        rate => trimmed(rate, ""),
    }
}

fn trimmed(x: f64, unit: &str) -> String {
    let text = if x >= 100.0 {
        format!("{x:.0}")
    } else {
        format!("{x:.2}")
    };
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{unit}")
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 1e9 => trimmed(ns / 1e9, " s"),
        ns if ns >= 1e6 => trimmed(ns / 1e6, " ms"),
        ns if ns >= 1e3 => trimmed(ns / 1e3, " us"),
        ns => trimmed(ns, " ns"),
    }
}

fn table_section(results: &Results, html: &mut String) {
    html.push_str("<h2>Operations per second</h2><div class=\"card scroll\"><table><tr>");
    html.push_str("<th>benchmark</th><th>threads</th>");
    for store in &results.stores {
        let _ = write!(html, "<th>{}</th>", escaped(store));
    }
    html.push_str("</tr>");
    for name in names(results) {
        for threads in threads_of(results, name) {
            let _ = write!(html, "<tr><td>{}</td><td>{threads}</td>", escaped(name));
            let rates: Vec<Option<f64>> = results
                .stores
                .iter()
                .map(|store| results.rate(name, store, threads).map(|rate| rate.median))
                .collect();
            let best = rates.iter().flatten().copied().fold(0.0, f64::max);
            for rate in rates {
                let class = match rate {
                    Some(rate) if rate >= best => " class=\"best\"",
                    _ => "",
                };
                let told = rate.map_or(String::new(), text::per_second);
                let _ = write!(html, "<td{class}>{told}</td>");
            }
            html.push_str("</tr>");
        }
    }
    html.push_str("</table></div>");
}

/// What single benchmarks alone measure; and, folded up, what was counted.
fn figure_section(results: &Results, html: &mut String) {
    let figures = text::figures(results);
    if !figures.is_empty() {
        html.push_str("<h2>What single benchmarks measure</h2>");
        table(&figures, html);
    }
    html.push_str("<details><summary>What was counted in the last round</summary>");
    table(&text::meters(results), html);
    html.push_str("</details>");
}

fn table(table: &Table, html: &mut String) {
    let class = |side: Side| match side {
        Side::Left => " class=\"left\"",
        Side::Right => "",
    };
    html.push_str("<div class=\"card scroll\"><table><tr>");
    for (name, side) in table.columns() {
        let _ = write!(html, "<th{}>{}</th>", class(*side), escaped(name));
    }
    for row in table.rows() {
        html.push_str("</tr><tr>");
        for (cell, (_, side)) in row.iter().zip(table.columns()) {
            let _ = write!(html, "<td{}>{}</td>", class(*side), escaped(cell));
        }
    }
    html.push_str("</tr></table></div>");
}

fn foot(results: &Results, html: &mut String) {
    let checked: u64 = results.measurements.iter().map(|one| one.checked).sum();
    let _ = write!(
        html,
        "<h2>How it was measured</h2><p>Stores took turns, each in a process of its own, doing \
         the same drawn operations; medians of all rounds. {} answers were checked against what \
         had been written, and all were right. Every round by itself is in the JSON of the same \
         run.</p>",
        human::count(checked)
    );
    for remark in &results.remarks {
        let _ = write!(html, "<p>Note: {}.</p>", escaped(remark));
    }
}
