//! Which columns of a line are the key and the value.
//!
//! By default the first column is the key and all others are the value; a line of one column has an
//! empty value, so a word list is a file of pairs.
//!
//! Tests: below.

/// Which columns, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) key: usize,
    /// `None`: all columns but the key's.
    pub(crate) value: Option<usize>,
}

impl Default for Columns {
    fn default() -> Self {
        Columns {
            key: 1,
            value: None,
        }
    }
}

impl Columns {
    /// The key's column and the value's columns.
    ///
    /// # Errors
    /// The line has too few columns.
    pub(crate) fn pick<T>(self, mut columns: Vec<T>) -> Result<(T, Vec<T>), String> {
        self.check(columns.len())?;
        if let Some(value) = self.value.filter(|value| *value != self.key) {
            let (low, high) = (self.key.min(value) - 1, self.key.max(value) - 1);
            let last = columns.swap_remove(high);
            let first = columns.swap_remove(low);
            return Ok(match self.key < value {
                true => (first, vec![last]),
                false => (last, vec![first]),
            });
        }
        let key = columns.remove(self.key - 1);
        Ok((key, columns))
    }

    /// Whether there are enough columns.
    ///
    /// # Errors
    /// The line has too few.
    pub(crate) fn check(self, found: usize) -> Result<(), String> {
        let least = self.key.max(self.value.unwrap_or(1));
        if found < least || self.key == 0 || self.value == Some(0) {
            let counted = crate::human::counted(found as u64, "column");
            return Err(format!("it has {counted}, but column {least} is asked for"));
        }
        Ok(())
    }

    /// Whether the value has the column of this number, which is not the key's.
    pub(crate) fn has_value_in(self, number: usize) -> bool {
        number != self.key
            && self
                .value
                .is_none_or(|value| value == number || value == self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_is_the_first_column_and_the_value_is_the_rest() {
        let columns = Columns::default();
        assert_eq!(columns.pick(vec!["a"]), Ok(("a", vec![])));
        assert_eq!(columns.pick(vec!["a", "b", "c"]), Ok(("a", vec!["b", "c"])));
    }

    #[test]
    fn a_column_is_of_the_value_where_it_is_picked_for_it() {
        for key in 1..=3 {
            for value in [None, Some(1), Some(2), Some(3)] {
                let columns = Columns { key, value };
                let (_, picked) = columns.pick(vec![1, 2, 3]).unwrap();
                let told = (1..=3).filter(|number| columns.has_value_in(*number));
                assert_eq!(told.collect::<Vec<_>>(), picked, "{columns:?}");
            }
        }
    }

    #[test]
    fn any_column_can_be_the_key_or_the_value() {
        let pick = |key, value| Columns { key, value }.pick(vec!["a", "b", "c"]);
        assert_eq!(pick(2, None), Ok(("b", vec!["a", "c"])));
        assert_eq!(pick(3, Some(1)), Ok(("c", vec!["a"])));
        assert_eq!(pick(1, Some(2)), Ok(("a", vec!["b"])));
        assert_eq!(pick(1, Some(3)), Ok(("a", vec!["c"])));
        let reason = pick(4, None).unwrap_err();
        assert_eq!(reason, "it has 3 columns, but column 4 is asked for");
    }
}
