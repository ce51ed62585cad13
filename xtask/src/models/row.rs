//! What explorations say of themselves, one line each, and the table of them.
//!
//! Tests: below.

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) model: String,
    pub(super) how: String,
    pub(super) executions: String,
    pub(super) seconds: String,
    pub(super) verdict: String,
}

impl Row {
    /// That of a test which told of no exploration.
    pub(super) fn of_test(test: &str, tool: &str, passed: bool) -> Row {
        let verdict = if passed { "ok" } else { "FAILED" };
        Row {
            model: test.to_owned(),
            how: tool.to_owned(),
            executions: "-".to_owned(),
            seconds: "-".to_owned(),
            verdict: verdict.to_owned(),
        }
    }

    /// Whether it tells of an exploration with `tool` that could go on: controls end.
    pub(super) fn goes_on(&self, tool: &str) -> bool {
        self.how.starts_with(tool) && !self.is_control()
    }

    /// Whether it ended before its time.
    pub(super) fn is_whole(&self) -> bool {
        self.verdict == "holds"
    }

    fn is_control(&self) -> bool {
        self.verdict.to_lowercase().starts_with("control")
    }
}

/// The lines that explorations print, wherever they stand in the output.
pub(super) fn rows(output: &str) -> Vec<Row> {
    let line = |line: &str| {
        let (_, told) = line.split_once("model: ")?;
        let mut parts = told.split(" | ").map(str::to_owned);
        Some(Row {
            model: parts.next()?,
            how: parts.next()?,
            executions: parts.next()?,
            seconds: parts.next()?,
            verdict: parts.next()?,
        })
    };
    output.lines().filter_map(line).collect()
}

pub(super) fn table(rows: &[Row]) -> String {
    let head = Row {
        model: "model".to_owned(),
        how: "how".to_owned(),
        executions: "executions".to_owned(),
        seconds: "seconds".to_owned(),
        verdict: "verdict".to_owned(),
    };
    let width = |of: fn(&Row) -> &String| {
        let lengths = rows.iter().chain([&head]).map(|row| of(row).len());
        lengths.max().unwrap_or_default()
    };
    let (model, how) = (width(|row| &row.model), width(|row| &row.how));
    let line = |row: &Row| {
        format!(
            "{:<model$}  {:<how$}  {:>10}  {:>8}  {}\n",
            row.model, row.how, row.executions, row.seconds, row.verdict
        )
    };
    let mut text = line(&head);
    text.extend(rows.iter().map(line));
    let number = |row: &Row| row.executions.parse::<u64>().unwrap_or(0);
    let executions: u64 = rows.iter().map(number).sum();
    text + &format!("{} explorations, {executions} executions", rows.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 1 test\n\
        test a ... model: sync/wake_up | loom, 3 preemptions | 32 | 0.01 | holds\n\
        noise\n\
        model: sync/wake_up | shuttle, random | 14 | 0.00 | control fails, as it must\n\
        test result: ok. 1 passed; 0 failed\n";

    #[test]
    fn every_line_of_an_exploration_becomes_a_row() {
        let rows = rows(OUTPUT);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].how, "loom, 3 preemptions");
        assert_eq!(rows[1].verdict, "control fails, as it must");
        assert!(rows[0].goes_on("loom") && !rows[0].goes_on("shuttle"));
        assert!(!rows[1].goes_on("shuttle"), "a control");
        let text = table(&rows);
        assert!(text.ends_with("2 explorations, 46 executions"), "{text}");
    }
}
