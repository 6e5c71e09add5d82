//! Canvas of pixels of three bytes, and operations that draw on it. They clip at its edges.

use super::font;

pub(super) type Colour = [u8; 3];

/// Rows of pixels, from the top.
pub(super) struct Canvas<'a> {
    pixels: &'a mut [u8],
    width: usize,
}

/// Area of a canvas, in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) left: i32,
    pub(super) top: i32,
    pub(super) width: i32,
    pub(super) height: i32,
}

impl Area {
    /// Returns the pixel column of point `at` of `count` points.
    pub(super) fn column(self, at: usize, count: usize) -> i32 {
        let last = count.max(2) - 1;
        self.left + (at * (self.width as usize - 1) / last) as i32
    }

    /// Returns the pixel row of a number between `low` (bottom) and `high` (top).
    pub(super) fn row(self, number: f64, (low, high): (f64, f64)) -> i32 {
        let share = if high > low { (number - low) / (high - low) } else { 0.5 };
        self.top + ((1.0 - share.clamp(0.0, 1.0)) * f64::from(self.height - 1)).round() as i32
    }
}

impl<'a> Canvas<'a> {
    /// Takes memory for rows of `width` pixels, and fills it with one colour.
    pub(super) fn new(pixels: &'a mut [u8], width: usize, background: Colour) -> Self {
        for pixel in pixels.chunks_exact_mut(3) {
            pixel.copy_from_slice(&background);
        }
        Self { pixels, width }
    }

    fn height(&self) -> usize {
        self.pixels.len() / 3 / self.width
    }

    fn dot(&mut self, x: i32, y: i32, colour: Colour) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x < self.width && y < self.height() {
            let at = 3 * (y * self.width + x);
            self.pixels[at..at + 3].copy_from_slice(&colour);
        }
    }

    pub(super) fn fill(&mut self, area: Area, colour: Colour) {
        for y in area.top..area.top + area.height {
            for x in area.left..area.left + area.width {
                self.dot(x, y, colour);
            }
        }
    }

    /// Draws a line two pixels high (Bresenham, *Algorithm for computer control of a digital
    /// plotter*, 1965).
    pub(super) fn line(&mut self, from: (i32, i32), to: (i32, i32), colour: Colour) {
        let ((mut x, mut y), (end_x, end_y)) = (from, to);
        let (wide, tall) = ((end_x - x).abs(), -(end_y - y).abs());
        let (right, down) = ((end_x - x).signum(), (end_y - y).signum());
        let mut error = wide + tall;
        loop {
            self.dot(x, y, colour);
            self.dot(x, y + 1, colour);
            if (x, y) == (end_x, end_y) {
                return;
            }
            let twice = 2 * error;
            if twice >= tall {
                error += tall;
                x += right;
            }
            if twice <= wide {
                error += wide;
                y += down;
            }
        }
    }

    /// Draws a triangle that points up or down, with its tip at a point.
    pub(super) fn triangle(&mut self, tip: (i32, i32), up: bool, colour: Colour) {
        const ROWS: i32 = 7;
        for row in 0..ROWS {
            let y = if up { tip.1 + row } else { tip.1 - row };
            for x in tip.0 - row / 2..=tip.0 + row / 2 {
                self.dot(x, y, colour);
            }
        }
    }

    /// Writes a line of text, with `scale` pixels for each pixel of a glyph. Returns the next
    /// column.
    pub(super) fn text(&mut self, at: (i32, i32), text: &str, scale: i32, colour: Colour) -> i32 {
        let mut left = at.0;
        for character in text.chars() {
            for row in 0..font::HEIGHT {
                for column in 0..font::WIDTH {
                    if font::is_set(character, column, row) {
                        let dot = Area {
                            left: left + column as i32 * scale,
                            top: at.1 + row as i32 * scale,
                            width: scale,
                            height: scale,
                        };
                        self.fill(dot, colour);
                    }
                }
            }
            left += (font::WIDTH as i32 + 1) * scale;
        }
        left
    }
}
