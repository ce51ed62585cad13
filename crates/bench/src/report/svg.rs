//! Small charts as inline SVG: lines over a few places, bars on a scale of ratios.
//!
//! G1. Every number drawn is also in a `title`, which a browser shows under the pointer, and every
//!     text that comes from outside is escaped.
//!
//! Threads: plain functions. Tests: below.

use std::fmt::Write;

/// One line of a chart: its color, its name, a value for each place or none.
pub(super) struct Line<'a> {
    pub(super) name: &'a str,
    pub(super) color: usize,
    pub(super) values: Vec<Option<f64>>,
}

/// How the axis of values runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scale {
    /// From zero.
    Linear,
    /// By powers of ten.
    Logarithmic,
}

/// Colors that are told apart by most people, ours first.
pub(super) const COLORS: [&str; 10] = [
    "#1668dc", "#e07b24", "#2f9e55", "#8957e5", "#d1344b", "#12939a", "#8f6a00", "#c2479b",
    "#5c6b7a", "#7aa116",
];

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 24.0;

/// How lines are drawn of which the colors were given out before: so thirty are told apart.
const DASHES: [&str; 3] = ["", "6 3", "1.5 3"];

/// The dashes of a line, as an attribute.
fn dashes(index: usize) -> String {
    match DASHES[index / COLORS.len() % DASHES.len()] {
        "" => String::new(),
        dashes => format!(r#" stroke-dasharray="{dashes}""#),
    }
}

/// A point of a line around `x` and `y`, which says `told`: a circle, a square or a triangle, as
/// its colors were given out the first time, the second or the third.
fn point(index: usize, x: f64, y: f64, told: &str) -> String {
    let fill = color(index);
    let (shape, close) = match index / COLORS.len() % DASHES.len() {
        0 => (
            format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="3.2""#),
            "circle",
        ),
        1 => {
            let (x, y) = (x - 3.0, y - 3.0);
            let rect = format!(r#"<rect x="{x:.1}" y="{y:.1}" width="6" height="6""#);
            (rect, "rect")
        }
        _ => {
            let (left, right, top, bottom) = (x - 4.0, x + 4.0, y - 4.0, y + 3.0);
            let path = format!(
                r#"<path d="M{x:.1} {top:.1}L{right:.1} {bottom:.1}L{left:.1} {bottom:.1}Z""#
            );
            (path, "path")
        }
    };
    format!(
        r#"{shape} fill="{fill}"><title>{}</title></{close}>"#,
        escaped(told)
    )
}

/// What lines and points of a store look like, for a legend.
pub(super) fn sample(index: usize) -> String {
    format!(
        r#"<svg viewBox="0 0 34 12" aria-hidden="true"><line class="line" stroke="{}"{} x1="0" x2="34" y1="6" y2="6"/>{}</svg>"#,
        color(index),
        dashes(index),
        point(index, 17.0, 6.0, ""),
    )
}

/// The color of a line.
pub(super) fn color(index: usize) -> &'static str {
    COLORS[index % COLORS.len()]
}

/// `text` as it may stand in a page.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A chart of lines over `places`, values told by `tell`.
pub(super) fn lines(
    title: &str,
    places: &[String],
    all: &[Line<'_>],
    scale: Scale,
    tell: impl Fn(f64) -> String,
) -> String {
    let values = || {
        all.iter()
            .flat_map(|line| line.values.iter().flatten().copied())
    };
    let most = values().fold(0.0, f64::max);
    let least = values().fold(f64::INFINITY, f64::min);
    let axis = Axis::new(least, most, scale);
    let mut svg = opened(WIDTH, HEIGHT, title);
    heading(&mut svg, title);
    for tick in axis.ticks() {
        let y = axis.y(tick);
        let _ = write!(
            svg,
            r#"<line class="grid" x1="{LEFT}" x2="{}" y1="{y:.1}" y2="{y:.1}"/><text class="tick" x="{}" y="{:.1}" text-anchor="end">{}</text>"#,
            WIDTH - RIGHT,
            LEFT - 5.0,
            y + 3.5,
            escaped(&tell(tick)),
        );
    }
    let count = crate::result::float(places.len().max(1) as u64);
    let x = |at: usize| {
        let step = (WIDTH - LEFT - RIGHT) / count;
        LEFT + step * (crate::result::float(at as u64) + 0.5)
    };
    for (at, place) in places.iter().enumerate() {
        let _ = write!(
            svg,
            r#"<text class="tick" x="{:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            x(at),
            HEIGHT - 8.0,
            escaped(place),
        );
    }
    for line in all {
        draw(&mut svg, line, places, &axis, &x, &tell);
    }
    svg.push_str("</svg>");
    svg
}

/// Draws one line and its points.
fn draw(
    svg: &mut String,
    line: &Line<'_>,
    places: &[String],
    axis: &Axis,
    x: &impl Fn(usize) -> f64,
    tell: &impl Fn(f64) -> String,
) {
    let points: Vec<(usize, f64)> = line
        .values
        .iter()
        .enumerate()
        .filter_map(|(at, value)| value.map(|value| (at, value)))
        .collect();
    let color = color(line.color);
    let path: Vec<String> = points
        .iter()
        .map(|(at, value)| format!("{:.1},{:.1}", x(*at), axis.y(*value)))
        .collect();
    let _ = write!(
        svg,
        r#"<polyline class="line" stroke="{color}"{} points="{}"/>"#,
        dashes(line.color),
        path.join(" ")
    );
    for (at, value) in points {
        let told = format!("{}, {}: {}", line.name, places[at], tell(value));
        svg.push_str(&point(line.color, x(at), axis.y(value), &told));
    }
}

/// An axis of values, from the bottom of a chart to its top.
struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Axis {
    fn new(least: f64, most: f64, scale: Scale) -> Self {
        let most = most.max(1e-9);
        let (low, high) = match scale {
            Scale::Linear => (0.0, most * 1.06),
            Scale::Logarithmic => {
                let least = least.min(most).max(1e-9);
                (least.log10().floor(), (most * 1.05).log10().ceil())
            }
        };
        Axis { low, high, scale }
    }

    fn y(&self, value: f64) -> f64 {
        let at = match self.scale {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(1e-9).log10(),
        };
        let share = (at - self.low) / (self.high - self.low).max(1e-9);
        HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)
    }

    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let step = round_step(self.high / 4.0);
                let ticks = (0..=8).map(|n| f64::from(n) * step);
                ticks.filter(|tick| *tick <= self.high).collect()
            }
            Scale::Logarithmic => {
                let ticks = (-9..=15).map(f64::from);
                let inside = ticks.filter(|tick| (self.low..=self.high).contains(tick));
                inside.map(|tick| 10_f64.powf(tick)).collect()
            }
        }
    }
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.max(1e-9).log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let fit = factors
        .iter()
        .find(|factor| *factor * power >= step * 0.999);
    fit.unwrap_or(&10.0) * power
}

/// One bar: a name before it, its color, its value with the least and the greatest.
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) color: usize,
    pub(super) value: f64,
    pub(super) least: f64,
    pub(super) greatest: f64,
}

const BAR_WIDTH: f64 = 470.0;
const BAR_LEFT: f64 = 138.0;
/// Room for a letter of a bar's name, and the most for all of them.
const LETTER: f64 = 6.6;
const BAR_LEFT_MAX: f64 = 236.0;
const BAR_RIGHT: f64 = 62.0;
const BAR_STEP: f64 = 17.0;

/// Bars of ratios on a logarithmic scale, from 1 to the right where we are faster, to the left
/// where we are not. `bound` is the greatest ratio, or inverse ratio, of all such charts.
pub(super) fn ratios(title: &str, bars: &[Bar], bound: f64) -> String {
    let height = TOP + BAR_STEP * crate::result::float(bars.len() as u64) + 20.0;
    let mut svg = opened(BAR_WIDTH, height, title);
    heading(&mut svg, title);
    let bound = bound.max(2.0).log2();
    let longest = bars.iter().map(|bar| bar.label.chars().count() as u64);
    let names = crate::result::float(longest.max().unwrap_or(0)) * LETTER + 14.0;
    let left = names.clamp(BAR_LEFT, BAR_LEFT_MAX);
    let middle = f64::midpoint(left, BAR_WIDTH - BAR_RIGHT);
    let half = (BAR_WIDTH - BAR_RIGHT - left) / 2.0;
    let x = |ratio: f64| {
        let at = ratio.max(1e-9).log2() / bound;
        middle + at.clamp(-1.0, 1.0) * half
    };
    // Powers of two; of four where more would not fit side by side.
    let step = if bound > 4.0 { 2 } else { 1 };
    for power in (-6..=6).filter(|power| power % step == 0) {
        let tick = 2.0_f64.powi(power);
        if f64::from(power).abs() > bound {
            continue;
        }
        let class = if power == 0 { "one" } else { "grid" };
        let told = match power {
            ..0 => format!("1/{}", 2.0_f64.powi(-power)),
            _ => format!("{tick}x"),
        };
        let at = x(tick);
        let _ = write!(
            svg,
            r#"<line class="{class}" x1="{at:.1}" x2="{at:.1}" y1="{:.1}" y2="{:.1}"/><text class="tick" x="{at:.1}" y="{:.1}" text-anchor="middle">{told}</text>"#,
            TOP - 2.0,
            height - 18.0,
            height - 6.0,
        );
    }
    let mut y = TOP + 2.0;
    for bar in bars {
        let (from, to) = (x(bar.value.min(1.0)), x(bar.value.max(1.0)));
        let fill = color(bar.color);
        let told = format!(
            "{}: {:.2} ({:.2} to {:.2})",
            bar.label, bar.value, bar.least, bar.greatest
        );
        let _ = write!(
            svg,
            r#"<text class="name" x="{}" y="{:.1}" text-anchor="end">{}</text><rect x="{from:.1}" y="{y:.1}" width="{:.1}" height="11" rx="1.5" fill="{fill}" fill-opacity="0.85"><title>{}</title></rect><line class="whisker" x1="{:.1}" x2="{:.1}" y1="{:.1}" y2="{:.1}"/><text class="value" x="{}" y="{:.1}">{:.2}x</text>"#,
            left - 10.0,
            y + 9.5,
            escaped(&bar.label),
            (to - from).max(1.0),
            escaped(&told),
            x(bar.least),
            x(bar.greatest),
            y + 5.5,
            y + 5.5,
            BAR_WIDTH - BAR_RIGHT + 10.0,
            y + 9.5,
            bar.value,
        );
        y += BAR_STEP;
    }
    svg.push_str("</svg>");
    svg
}

fn opened(width: f64, height: f64, title: &str) -> String {
    format!(
        r#"<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{}">"#,
        escaped(title)
    )
}

fn heading(svg: &mut String, title: &str) {
    let _ = write!(
        svg,
        r#"<text class="heading" x="2" y="14">{}</text>"#,
        escaped(title)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_told_and_text_is_escaped() {
        let line = Line {
            name: "a<b",
            color: 0,
            values: vec![Some(1000.0), None, Some(2500.0)],
        };
        let places = ["1".to_owned(), "2".to_owned(), "4".to_owned()];
        let svg = lines("x & y", &places, &[line], Scale::Linear, |v| {
            format!("{v:.0}/s")
        });
        assert!(svg.contains("<title>a&lt;b, 4: 2500/s</title>"), "{svg}");
        assert!(svg.contains("x &amp; y") && !svg.contains("a<b"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
    }

    #[test]
    fn thirty_stores_are_told_apart() {
        let mut all: Vec<String> = (0..30).map(sample).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 30);
    }

    #[test]
    fn bars_go_right_where_we_are_faster() {
        let bar = |value| Bar {
            label: "lmdb".to_owned(),
            color: 1,
            value,
            least: value,
            greatest: value,
        };
        let at = |value| {
            let svg = ratios("get", &[bar(value)], 8.0);
            let rect = svg.split("<rect x=\"").nth(1).unwrap();
            rect.split('"').next().unwrap().parse::<f64>().unwrap()
        };
        assert!(at(0.5) < at(4.0));
    }

    #[test]
    fn names_of_bars_have_the_room_they_take() {
        let start = |label: &str| {
            let bar = Bar {
                label: label.to_owned(),
                color: 1,
                value: 1.0,
                least: 1.0,
                greatest: 1.0,
            };
            let svg = ratios("get", &[bar], 2.0);
            let end = svg.split("class=\"name\" x=\"").nth(1).unwrap();
            let end: f64 = end.split('"').next().unwrap().parse().unwrap();
            end - LETTER * label.len() as f64
        };
        assert!(start("aoc, 1 thread") > 0.0);
        assert!(start("memtable:append-only, 16 threads") > 0.0);
    }

    #[test]
    fn ticks_are_round_and_few() {
        let axis = Axis::new(0.0, 1_730_000.0, Scale::Linear);
        assert_eq!(axis.ticks(), [0.0, 500_000.0, 1_000_000.0, 1_500_000.0]);
        let axis = Axis::new(300.0, 2e6, Scale::Logarithmic);
        assert_eq!(axis.ticks().len(), 6);
    }
}
