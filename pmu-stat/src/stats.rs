// SPDX-License-Identifier: GPL-2.0

//! Mean and deviation over the runs of `-r`.

/// A mean and the standard error of that mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mean {
    /// The mean.
    pub(crate) value: f64,
    /// How far the mean itself is likely to be off: the standard deviation over the root of the
    /// number of runs. 0 for a single run.
    pub(crate) deviation: f64,
}

impl Mean {
    /// Of a number for each run.
    pub(crate) fn of(runs: impl Iterator<Item = f64> + Clone) -> Self {
        let n = runs.clone().count() as f64;
        if n == 0.0 {
            return Self {
                value: 0.0,
                deviation: 0.0,
            };
        }
        let value = runs.clone().sum::<f64>() / n;
        let squares: f64 = runs.map(|run| (run - value).powi(2)).sum();
        let deviation = if n > 1.0 {
            (squares / (n - 1.0) / n).sqrt()
        } else {
            0.0
        };
        Self { value, deviation }
    }

    /// The deviation as a percentage of the mean.
    pub(crate) fn percent(self) -> f64 {
        if self.value == 0.0 {
            0.0
        } else {
            100.0 * self.deviation / self.value
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_and_its_deviation() {
        // Squares 4 + 0 + 4; variance 4; of the mean 4/3.
        let mean = Mean::of([8.0, 10.0, 12.0].into_iter());
        assert_eq!(mean.value, 10.0);
        assert!((mean.deviation - (4.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((mean.percent() - 11.547).abs() < 1e-3);
    }

    #[test]
    fn nothing_deviates_from_itself() {
        assert_eq!(Mean::of([7.0; 4].into_iter()).percent(), 0.0);
        assert_eq!(Mean::of([7.0].into_iter()).percent(), 0.0);
        assert_eq!(Mean::of([0.0; 2].into_iter()).percent(), 0.0);
        assert_eq!(Mean::of([].into_iter()).value, 0.0);
    }
}
