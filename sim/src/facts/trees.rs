//! Boosted regression trees (Friedman 2001), which find what no sum of features tells.
//!
//! Each feature is cut into bins of about as many rows. A tree of a fixed depth splits all nodes of
//! a level at once, each at the feature and bin that leave the least squared error, and predicts a
//! part of what the trees before it left. Deterministic.

/// Trees of a forecast.
const TREES: usize = 60;
/// Levels of splits in a tree.
const DEPTH: usize = 3;
/// Part of a leaf's mean that is added to the forecast.
const RATE: f64 = 0.1;
/// Bins of a feature.
const BINS: usize = 32;
/// Rows of the smallest leaf.
const LEAST_ROWS: f64 = 200.0;
/// Rows from which the bins are taken.
const CUT_ROWS: usize = 5_000;

/// Features in bins, for several fits on the same rows.
pub(super) struct Binned {
    /// Ascending bounds of the bins of each feature. A bin holds the values up to its bound.
    cuts: Vec<Vec<f64>>,
    /// Bin of each value, row by row.
    bins: Vec<u8>,
}

impl Binned {
    /// Cuts the features of `rows`, each of which has `width` values. O(rows · width · log bins).
    pub(super) fn new(rows: &[f64], width: usize) -> Self {
        let every = (rows.len() / width).div_ceil(CUT_ROWS).max(1);
        let cuts: Vec<Vec<f64>> = (0..width)
            .map(|feature| {
                let mut values: Vec<f64> =
                    rows.iter().skip(feature).step_by(width * every).copied().collect();
                values.sort_by(f64::total_cmp);
                let bound = |bin: usize| values.get(bin * values.len() / BINS).copied();
                let mut bounds: Vec<f64> = (1..BINS).filter_map(bound).collect();
                bounds.dedup();
                bounds
            })
            .collect();
        let bins = rows
            .chunks_exact(width)
            .flat_map(|row| row.iter().zip(&cuts).map(|(value, cuts)| bin_of(cuts, *value)))
            .collect();
        Self { cuts, bins }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "fewer than 32 cuts")]
fn bin_of(cuts: &[f64], value: f64) -> u8 {
    cuts.partition_point(|cut| *cut < value) as u8
}

/// Split of a node: rows whose feature is above the bound go right.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Split {
    feature: usize,
    bin: u8,
    bound: f64,
}

impl Split {
    /// Sends all rows left.
    const NONE: Self = Self { feature: 0, bin: u8::MAX, bound: f64::INFINITY };
}

/// A tree whose node `n` has the children `2n + 1` and `2n + 2`.
#[derive(Clone, Debug, PartialEq)]
struct Tree {
    splits: [Split; (1 << DEPTH) - 1],
    leaves: [f64; 1 << DEPTH],
}

/// Sum of trees.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Trees {
    base: f64,
    trees: Vec<Tree>,
}

/// Number and sum of the rows in a bin.
#[derive(Clone, Copy, Default)]
struct Bin {
    rows: f64,
    sum: f64,
}

impl Bin {
    fn gain(self) -> f64 {
        self.sum * self.sum / self.rows.max(1.0)
    }
}

impl Trees {
    /// Fits trees to one target of each row. O(trees · depth · rows · features).
    pub(super) fn fit(binned: &Binned, targets: &[f64]) -> Self {
        let base = targets.iter().sum::<f64>() / targets.len().max(1) as f64;
        let mut left: Vec<f64> = targets.iter().map(|target| target - base).collect();
        let trees = (0..TREES).map(|_| Tree::fit(binned, &mut left)).collect();
        Self { base, trees }
    }

    /// Returns the forecast for one row.
    pub(super) fn forecast(&self, row: &[f64]) -> f64 {
        self.base + self.trees.iter().map(|tree| tree.leaf(row)).sum::<f64>()
    }
}

impl Tree {
    /// Fits a tree to `left`, and takes what it predicts from there.
    fn fit(binned: &Binned, left: &mut [f64]) -> Self {
        let width = binned.cuts.len();
        let mut tree = Self { splits: [Split::NONE; (1 << DEPTH) - 1], leaves: [0.0; 1 << DEPTH] };
        let mut nodes = vec![0; left.len()];
        for level in 0..DEPTH {
            let first = (1 << level) - 1;
            let mut found = vec![Bin::default(); (1 << level) * width * BINS];
            let rows = || binned.bins.chunks_exact(width);
            for ((row, value), node) in rows().zip(left.iter()).zip(&nodes) {
                let bins = found[(node - first) * width * BINS..].chunks_exact_mut(BINS);
                for (bins, bin) in bins.zip(row) {
                    let bin = &mut bins[usize::from(*bin)];
                    bin.rows += 1.0;
                    bin.sum += value;
                }
            }
            for (node, bins) in found.chunks_exact(width * BINS).enumerate() {
                tree.splits[first + node] = best_split(bins, &binned.cuts);
            }
            for (row, node) in rows().zip(&mut nodes) {
                let split = tree.splits[*node];
                *node = 2 * *node + 1 + usize::from(row[split.feature] > split.bin);
            }
        }
        let first = (1 << DEPTH) - 1;
        let mut sums = [Bin::default(); 1 << DEPTH];
        for (node, value) in nodes.iter().zip(left.iter()) {
            sums[node - first].rows += 1.0;
            sums[node - first].sum += value;
        }
        tree.leaves = sums.map(|leaf| RATE * leaf.sum / leaf.rows.max(1.0));
        for (node, value) in nodes.iter().zip(left) {
            *value -= tree.leaves[node - first];
        }
        tree
    }

    fn leaf(&self, row: &[f64]) -> f64 {
        let mut node = 0;
        for _ in 0..DEPTH {
            let split = self.splits[node];
            node = 2 * node + 1 + usize::from(row[split.feature] > split.bound);
        }
        self.leaves[node + 1 - (1 << DEPTH)]
    }
}

/// Returns the split of a node that leaves the least squared error; none if no split leaves less.
fn best_split(bins: &[Bin], cuts: &[Vec<f64>]) -> Split {
    let all = bins[..BINS]
        .iter()
        .fold(Bin::default(), |all, bin| Bin { rows: all.rows + bin.rows, sum: all.sum + bin.sum });
    let mut best = (all.gain(), Split::NONE);
    for (feature, (bins, cuts)) in bins.chunks_exact(BINS).zip(cuts).enumerate() {
        let mut below = Bin::default();
        for ((bin, bound), number) in bins.iter().zip(cuts).zip(0..) {
            below = Bin { rows: below.rows + bin.rows, sum: below.sum + bin.sum };
            let above = Bin { rows: all.rows - below.rows, sum: all.sum - below.sum };
            if below.rows < LEAST_ROWS || above.rows < LEAST_ROWS {
                continue;
            }
            let gain = below.gain() + above.gain();
            if gain > best.0 {
                best = (gain, Split { feature, bin: number, bound: *bound });
            }
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::super::random::SeriesRandom;
    use super::*;

    fn rows(random: &mut SeriesRandom, count: usize) -> Vec<f64> {
        // The third feature has few values, and the last one is constant.
        (0..count)
            .flat_map(|_| {
                let third = (2.0 * random.uniform()).floor();
                [random.normal(), random.normal(), third, 1.0]
            })
            .collect()
    }

    /// Returns the share of the variance of a target that is explained on fresh rows.
    fn explained(target: impl Fn(&[f64]) -> f64) -> f64 {
        let mut random = SeriesRandom::new(8);
        let fit = rows(&mut random, 20_000);
        let noisy = |row: &[f64], random: &mut SeriesRandom| target(row) + random.normal();
        let targets: Vec<f64> = fit.chunks_exact(4).map(|row| noisy(row, &mut random)).collect();
        let trees = Trees::fit(&Binned::new(&fit, 4), &targets);
        let fresh = rows(&mut random, 5_000);
        let (mut left, mut all) = (0.0, 0.0);
        for row in fresh.chunks_exact(4) {
            left += (target(row) - trees.forecast(row)).powi(2);
            all += target(row).powi(2);
        }
        1.0 - left / all
    }

    #[test]
    fn a_product_of_two_features_is_found() {
        let share = explained(|row| if row[0] * row[1] > 0.0 { 1.0 } else { -1.0 });
        assert!(share > 0.7, "{share}");
    }

    #[test]
    fn a_feature_of_two_values_is_split_between_them() {
        let share = explained(|row| 2.0 * row[2] - 1.0);
        assert!(share > 0.95, "{share}");
    }

    #[test]
    fn noise_is_hardly_fitted() {
        let mut random = SeriesRandom::new(9);
        let fit = rows(&mut random, 20_000);
        let targets = random.normals(20_000);
        let trees = Trees::fit(&Binned::new(&fit, 4), &targets);
        let largest = fit.chunks_exact(4).map(|row| trees.forecast(row).abs());
        let largest = largest.fold(0.0, f64::max);
        assert!(largest < 0.5, "{largest}");
    }

    #[test]
    fn no_rows_forecast_nothing() {
        let trees = Trees::fit(&Binned::new(&[], 4), &[]);
        assert!(trees.forecast(&[0.0; 4]).abs() < f64::EPSILON);
    }
}
