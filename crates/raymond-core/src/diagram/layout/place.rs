//! Computes the positions of the items in their rows.

use std::collections::HashMap;

use super::{Band, Item, MARGIN, Point, ROW_GAP};

const SWEEPS: usize = 14;
const NODE_GAP: f64 = 30.0;
const BEND_GAP: f64 = 14.0;

/// Positions from left to right: as near to the neighbours above and below as the order in the row permits.
pub(super) fn across(items: &[Item], rows: &[Vec<usize>]) -> Vec<Point> {
    let mut points = vec![Point::default(); items.len()];
    for row in rows {
        let offsets = offsets(items, row);
        let middle = offsets.last().copied().unwrap_or_default() / 2.0;
        for (item, offset) in row.iter().zip(offsets) {
            if let Some(point) = points.get_mut(*item) {
                point.x = offset - middle;
            }
        }
    }
    for sweep in 0..SWEEPS {
        // The last sweep uses the neighbours on both sides.
        let side = if sweep + 2 >= SWEEPS {
            Side::Both
        } else if sweep % 2 == 0 {
            Side::Above
        } else {
            Side::Below
        };
        let downward: Vec<&Vec<usize>> =
            if sweep % 2 == 0 { rows.iter().collect() } else { rows.iter().rev().collect() };
        for row in downward {
            place_row(items, row, side, &mut points);
        }
    }
    points
}

#[derive(Clone, Copy)]
enum Side {
    Above,
    Below,
    Both,
}

/// The minimum distance of each item of a row from the first.
fn offsets(items: &[Item], row: &[usize]) -> Vec<f64> {
    let mut offsets: Vec<f64> = Vec::with_capacity(row.len());
    let mut previous: Option<&Item> = None;
    for item in row.iter().filter_map(|number| items.get(*number)) {
        let offset = match (previous, offsets.last()) {
            (Some(left), Some(offset)) => {
                let gap = if left.is_node && item.is_node { NODE_GAP } else { BEND_GAP };
                offset + f64::midpoint(left.size.width, item.size.width) + gap
            }
            _ => 0.0,
        };
        offsets.push(offset);
        previous = Some(item);
    }
    offsets
}

fn place_row(items: &[Item], row: &[usize], side: Side, points: &mut [Point]) {
    let offsets = offsets(items, row);
    let wishes: Vec<(f64, f64)> = row
        .iter()
        .zip(&offsets)
        .map(|(&number, offset)| {
            let (wish, weight) = wish(items, number, side, points);
            (wish - offset, weight)
        })
        .collect();
    for ((number, offset), place) in row.iter().zip(offsets).zip(in_order(&wishes)) {
        if let Some(point) = points.get_mut(*number) {
            point.x = place + offset;
        }
    }
}

/// The best position of an item, and its weight; straight long edges have the highest weight.
fn wish(items: &[Item], number: usize, side: Side, points: &[Point]) -> (f64, f64) {
    let own = points.get(number).map_or(0.0, |point| point.x);
    let Some(item) = items.get(number) else { return (own, 1.0) };
    let neighbours: Vec<f64> = match side {
        Side::Above => item.above.iter().filter_map(|at| points.get(*at)).map(|point| point.x).collect(),
        Side::Below => item.below.iter().filter_map(|at| points.get(*at)).map(|point| point.x).collect(),
        Side::Both => item
            .above
            .iter()
            .chain(&item.below)
            .filter_map(|at| points.get(*at))
            .map(|point| point.x)
            .collect(),
    };
    if neighbours.is_empty() {
        return (own, 0.2);
    }
    let mean = neighbours.iter().sum::<f64>() / neighbours.len() as f64;
    (mean, if item.is_node { 1.0 } else { 3.0 })
}

/// The increasing values nearest to the wishes, found by merging neighbours that are out of order.
fn in_order(wishes: &[(f64, f64)]) -> Vec<f64> {
    // Each block: the sum of weighted wishes, the sum of weights, the number of items.
    let mut blocks: Vec<(f64, f64, usize)> = Vec::new();
    for (wish, weight) in wishes {
        let mut block = (wish * weight, *weight, 1);
        while let Some(previous) = blocks.pop_if(|previous| previous.0 / previous.1 > block.0 / block.1) {
            block = (block.0 + previous.0, block.1 + previous.1, block.2 + previous.2);
        }
        blocks.push(block);
    }
    blocks.iter().flat_map(|(sum, weight, count)| std::iter::repeat_n(sum / weight, *count)).collect()
}

/// Positions from top to bottom; returns where each row is.
pub(super) fn down(items: &[Item], rows: &[Vec<usize>], points: &mut [Point]) -> Vec<Band> {
    let mut top = MARGIN;
    let mut bands = Vec::with_capacity(rows.len());
    for row in rows {
        let heights = row.iter().filter_map(|number| items.get(*number)).map(|item| item.size.height);
        let height = heights.fold(0.0, f64::max);
        for number in row {
            if let Some(point) = points.get_mut(*number) {
                point.y = top + height / 2.0;
            }
        }
        bands.push(Band { top, bottom: top + height });
        top += height + ROW_GAP;
    }
    bands
}

pub(super) fn leftmost(items: &[Item], points: &[Point]) -> f64 {
    let edges = items.iter().zip(points).map(|(item, point)| point.x - item.size.width / 2.0);
    edges.reduce(f64::min).unwrap_or_default()
}

pub(super) fn rightmost(items: &[Item], points: &[Point]) -> f64 {
    let edges = items.iter().zip(points).map(|(item, point)| point.x + item.size.width / 2.0);
    edges.reduce(f64::max).unwrap_or_default()
}

/// The points where edges touch their nodes: side by side, in the order of their other ends.
pub(super) struct Ports {
    /// By node and neighbour: the index of the port and the number of ports.
    above: HashMap<(usize, usize), (usize, usize)>,
    below: HashMap<(usize, usize), (usize, usize)>,
}

impl Ports {
    pub(super) fn new(items: &[Item], points: &[Point]) -> Ports {
        let mut ports = Ports { above: HashMap::new(), below: HashMap::new() };
        let x = |item: &usize| points.get(*item).map_or(0.0, |point| point.x);
        for (node, item) in items.iter().enumerate().filter(|(_, item)| item.is_node) {
            for (neighbours, taken) in [(&item.above, &mut ports.above), (&item.below, &mut ports.below)] {
                let mut sorted = neighbours.clone();
                sorted.sort_by(|one, other| x(one).total_cmp(&x(other)));
                for (index, neighbour) in sorted.iter().enumerate() {
                    taken.insert((node, *neighbour), (index, sorted.len()));
                }
            }
        }
        ports
    }

    pub(super) fn above(&self, items: &[Item], points: &[Point], node: usize, from: Option<usize>) -> Point {
        let port = from.and_then(|from| self.above.get(&(node, from)).copied());
        touched(items, points, node, port, -0.5)
    }

    pub(super) fn below(&self, items: &[Item], points: &[Point], node: usize, to: Option<usize>) -> Point {
        let port = to.and_then(|to| self.below.get(&(node, to)).copied());
        touched(items, points, node, port, 0.5)
    }
}

fn touched(items: &[Item], points: &[Point], node: usize, port: Option<(usize, usize)>, side: f64) -> Point {
    let centre = points.get(node).copied().unwrap_or_default();
    let (width, height) = items.get(node).map_or((0.0, 0.0), |item| (item.width, item.size.height));
    let (index, count) = port.unwrap_or((0, 1));
    // Edges stay near the middle and away from the corners.
    let step = (width * 0.7 / count as f64).min(26.0);
    let x = centre.x + (index as f64 - (count as f64 - 1.0) / 2.0) * step;
    Point { x, y: centre.y + height * side }
}
