// SPDX-License-Identifier: MIT OR Apache-2.0

//! Lines on two logarithmic scales.

use plotters::chart::ChartBuilder;
use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Text};
use plotters::prelude::{
    BLACK, BindKeyPoints, Color, DrawingArea, IntoFont, IntoLogRange, RGBColor, SVGBackend, WHITE,
};
use plotters::series::LineSeries;
use plotters::style::ShapeStyle;

/// Colours of lines: those of Okabe and Ito that are dark enough on white.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    /// The subject of the picture; its line is the widest.
    Ours,
    Green,
    Blue,
    Purple,
    Orange,
    Grey,
    Black,
}

impl Colour {
    fn style(self) -> ShapeStyle {
        let colour = match self {
            Self::Ours => RGBColor(0xD5, 0x5E, 0x00),
            Self::Green => RGBColor(0x00, 0x9E, 0x73),
            Self::Blue => RGBColor(0x00, 0x72, 0xB2),
            Self::Purple => RGBColor(0xCC, 0x79, 0xA7),
            Self::Orange => RGBColor(0xE6, 0x9F, 0x00),
            Self::Grey => RGBColor(0x8C, 0x8C, 0x8C),
            Self::Black => RGBColor(0x33, 0x33, 0x33),
        };
        colour.stroke_width(if self == Self::Ours { 4 } else { 2 })
    }
}

const FONT: &str = "sans-serif";
/// Columns of the names of lines, to the right of a chart.
const NAMES: u32 = 220;
/// Position of the first name, distance of names, and length of the line before each, in pixels.
const FIRST: i32 = 64;
const APART: i32 = 26;
const SAMPLE: i32 = 28;

/// A line and its name.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) colour: Colour,
    pub(super) points: Vec<(f64, f64)>,
}

/// Lines, and the labels of the axes.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) x: String,
    pub(super) y: String,
    pub(super) lines: Vec<Line>,
    pub(super) x_label: fn(&f64) -> String,
    pub(super) y_label: fn(&f64) -> String,
    /// Where the horizontal axis has labels; at round numbers if `None`.
    pub(super) x_ticks: Option<Vec<f64>>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

impl Chart {
    /// The least and the greatest of a coordinate, with some room.
    fn range(&self, of: fn(&(f64, f64)) -> f64, room: f64) -> std::ops::Range<f64> {
        let all = || self.lines.iter().flat_map(|line| &line.points).map(of);
        let least = all().fold(f64::INFINITY, f64::min);
        let greatest = all().fold(0.0, f64::max);
        least / room..greatest * room
    }

    pub(super) fn draw(&self, area: &Area<'_>) -> anyhow::Result<()> {
        let (x, y) = (self.range(|point| point.0, 1.15), self.range(|point| point.1, 1.15));
        let ticks = self.x_ticks.clone().unwrap_or_else(|| round_numbers(&x));
        let heights = round_numbers(&y);
        let (width, _) = area.dim_in_pixel();
        let (plot, names) = area.split_horizontally(width.saturating_sub(NAMES));
        let mut chart = ChartBuilder::on(&plot)
            .caption(&self.title, (FONT, 20).into_font().color(&BLACK))
            .margin(16)
            .x_label_area_size(48)
            .y_label_area_size(88)
            .build_cartesian_2d(
                x.log_scale().with_key_points(ticks),
                y.log_scale().with_key_points(heights),
            )?;
        chart
            .configure_mesh()
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&self.x_label)
            .y_label_formatter(&self.y_label)
            .label_style((FONT, 14))
            .axis_desc_style((FONT, 15))
            .bold_line_style(BLACK.mix(0.15))
            .light_line_style(WHITE)
            .draw()?;
        for (line, row) in self.lines.iter().zip(0..) {
            let style = line.colour.style();
            chart.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
            let point = |at: &(f64, f64)| Circle::new(*at, style.stroke_width, style.filled());
            chart.draw_series(line.points.iter().map(point))?;
            let y = FIRST + row * APART;
            names.draw(&PathElement::new([(0, y), (SAMPLE, y)], style))?;
            let name = Text::new(line.name.clone(), (SAMPLE + 8, y - 7), (FONT, 15));
            names.draw(&name)?;
        }
        Ok(())
    }
}

/// Most powers of ten on an axis that leave room for numbers between them.
const FEW: usize = 3;

/// The powers of ten in a range; if they are few, their doubles and fivefold too.
fn round_numbers(range: &std::ops::Range<f64>) -> Vec<f64> {
    let (first, last) = (range.start.log10().floor() as i32, range.end.log10().floor() as i32);
    let numbers = |factors: &[f64]| -> Vec<f64> {
        let of_power = |power| factors.iter().map(move |factor| factor * 10f64.powi(power));
        (first..=last).flat_map(of_power).filter(|number| range.contains(number)).collect()
    };
    let powers = numbers(&[1.0]);
    if powers.len() > FEW { powers } else { numbers(&[1.0, 2.0, 5.0]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_numbers_are_those_within_the_range_and_not_too_many() {
        assert_eq!(round_numbers(&(90.0..200_000.0)), [100.0, 1000.0, 10_000.0, 100_000.0]);
        assert_eq!(round_numbers(&(0.9e6..1.2e7)), [1e6, 2e6, 5e6, 1e7]);
        assert!(round_numbers(&(2.5..3.0)).is_empty());
    }
}
