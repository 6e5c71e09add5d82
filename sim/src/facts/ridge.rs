//! Ridge regression with several targets (Hoerl and Kennard 1970).

/// Penalty on the square of each coefficient, for each row of the fit.
const PENALTY: f64 = 1e-4;

/// Sums of squares and products of the rows and the targets.
pub(super) struct Regression {
    width: usize,
    rows: f64,
    squares: Vec<f64>,
    products: Vec<Vec<f64>>,
}

impl Regression {
    pub(super) fn new(width: usize, targets: usize) -> Self {
        let squares = vec![0.0; width * width];
        Self { width, rows: 0.0, squares, products: vec![vec![0.0; width]; targets] }
    }

    pub(super) fn add(&mut self, row: &[f64], targets: &[f64]) {
        self.rows += 1.0;
        for (line, left) in self.squares.chunks_exact_mut(self.width).zip(row) {
            line.iter_mut().zip(row).for_each(|(sum, right)| *sum += left * right);
        }
        for (sums, target) in self.products.iter_mut().zip(targets) {
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value * target);
        }
    }

    /// Returns the coefficients for each target, by Gaussian elimination of the normal equations.
    /// The penalty makes them positive definite, so that no pivoting is needed.
    pub(super) fn solve(&self) -> Vec<Vec<f64>> {
        let width = self.width;
        let mut squares = self.squares.clone();
        for at in 0..width {
            squares[at * width + at] += PENALTY * self.rows;
        }
        let mut weights = self.products.clone();
        for pivot in 0..width {
            let (upper, lower) = squares.split_at_mut((pivot + 1) * width);
            let pivot_row = &upper[pivot * width..];
            for (below, row) in lower.chunks_exact_mut(width).enumerate() {
                let factor = row[pivot] / pivot_row[pivot];
                row.iter_mut().zip(pivot_row).for_each(|(x, y)| *x -= factor * y);
                for products in &mut weights {
                    products[pivot + 1 + below] -= factor * products[pivot];
                }
            }
        }
        for products in &mut weights {
            for at in (0..width).rev() {
                let row = &squares[at * width..(at + 1) * width];
                let known: f64 = (at + 1..width).map(|k| row[k] * products[k]).sum();
                products[at] = (products[at] - known) / row[at];
            }
        }
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::SeriesRandom;
    use super::*;

    #[test]
    fn planted_coefficients_are_found() {
        let mut random = SeriesRandom::new(21);
        let mut regression = Regression::new(3, 4);
        for _ in 0..20_000 {
            let row = [random.normal(), random.normal() + 0.5, 1.0];
            let noise = random.normal();
            let targets = [1.0, 2.0, 0.0, -1.0].map(|by| by * row[0] - 0.5 * row[1] + 3.0 + noise);
            regression.add(&row, &targets);
        }
        let solved = regression.solve();
        for (weights, by) in solved.iter().zip([1.0, 2.0, 0.0, -1.0]) {
            for (weight, planted) in weights.iter().zip([by, -0.5, 3.0]) {
                assert!((weight - planted).abs() < 0.05, "{weights:?}, planted {by}");
            }
        }
    }
}
