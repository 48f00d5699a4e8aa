//! The layout of a diagram: layers from top to bottom, as people draw state machines.
//!
//! Edges that lead back are reversed, nodes get ranks, long edges and labels get their own items in the rows between,
//! each row is sorted so that few edges cross, and positions are chosen that keep edges short and straight. Every stage
//! is linear in the items, and the sweeps are few.

mod order;
mod place;
mod rank;

use super::Diagram;

/// An edge across more rows runs beside the whole drawing, so that a loop back to the start of a long chain stays cheap.
const MAX_ROWS_CROSSED: usize = 60;
const ROW_GAP: f64 = 18.0;
const MARGIN: f64 = 24.0;
/// The distance between two edges that run beside the drawing.
const LANE_GAP: f64 = 14.0;

/// The width and height of a node or a label.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Size {
    pub width: f64,
    pub height: f64,
}

/// A position in the diagram.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

/// The points of an edge, from its start to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    pub points: Vec<Point>,
    pub label: Option<Point>,
}

#[derive(Clone, Debug)]
pub struct Layout {
    pub size: Size,
    /// The centre of each node.
    pub nodes: Vec<Point>,
    /// The points of each edge; a loop has no points.
    pub edges: Vec<Course>,
}

/// An item in a row: a node, a label, or a bend of an edge.
#[derive(Clone, Debug)]
struct Item {
    /// The room it takes in its row.
    size: Size,
    /// How wide the part is that edges may touch.
    width: f64,
    row: usize,
    is_node: bool,
    above: Vec<usize>,
    below: Vec<usize>,
}

/// An edge in the layers: from an upper item to a lower one, with the items between.
struct Chain {
    items: Vec<usize>,
    label: Option<usize>,
    is_turned: bool,
}

/// Lays out a diagram whose nodes and labels have these sizes. A node's loop needs room on both sides of it: `loops`.
pub fn layout(diagram: &Diagram, nodes: &[Size], loops: &[f64], labels: &[Size]) -> Layout {
    let ranking = rank::rank(diagram);
    let node = |((size, loops), rank): ((&Size, &f64), &usize)| {
        let room = Size { width: size.width + 2.0 * loops, ..*size };
        Item { width: size.width, ..Item::new(room, rank * 2, true) }
    };
    let mut items: Vec<Item> = nodes.iter().zip(loops).zip(&ranking.ranks).map(node).collect();
    let mut chains = Vec::with_capacity(diagram.edges.len());
    for ((edge, label), is_turned) in diagram.edges.iter().zip(labels).zip(&ranking.turned) {
        let (upper, lower) = if *is_turned { (edge.to, edge.from) } else { (edge.from, edge.to) };
        chains.push(chain(&mut items, upper, lower, *label, *is_turned));
    }
    let rows = order::order(&items);
    let mut points = place::across(&items, &rows);
    let bands = place::down(&items, &rows, &mut points);
    let height = bands.last().map_or(0.0, |band| band.bottom) + MARGIN;
    let shift = place::leftmost(&items, &points) - MARGIN;
    for point in &mut points {
        point.x -= shift;
    }
    let right = place::rightmost(&items, &points);
    let edges: Vec<Course> = courses(diagram, &items, &chains, &points, &Rows { bands, right });
    let bulge = edges.iter().flat_map(|course| &course.points).map(|point| point.x).fold(0.0, f64::max);
    let size = Size { width: right.max(bulge) + 2.0 * MARGIN, height };
    points.truncate(nodes.len());
    Layout { size, nodes: points, edges }
}

impl Item {
    fn new(size: Size, row: usize, is_node: bool) -> Item {
        Item { size, width: size.width, row, is_node, above: Vec::new(), below: Vec::new() }
    }
}

fn chain(items: &mut Vec<Item>, upper: usize, lower: usize, label: Size, is_turned: bool) -> Chain {
    let row = |items: &[Item], item: usize| items.get(item).map_or(0, |item| item.row);
    let (top, bottom) = (row(items, upper), row(items, lower));
    let mut chain = Chain { items: vec![upper], label: None, is_turned };
    if bottom > top && bottom - top <= MAX_ROWS_CROSSED {
        // The label is in the odd row next to the middle; even rows contain only nodes.
        let middle = (top + bottom) / 2;
        let label_row = if middle % 2 == 1 { middle } else { middle.saturating_sub(1).max(top + 1) };
        for between in top + 1..bottom {
            let is_label = between == label_row && label.width > 0.0;
            let size = if is_label { label } else { Size { width: 4.0, height: 0.0 } };
            items.push(Item::new(size, between, false));
            chain.items.push(items.len() - 1);
            if is_label {
                chain.label = Some(items.len() - 1);
            }
        }
    }
    chain.items.push(lower);
    if upper != lower {
        connect(items, &chain.items);
    }
    chain
}

fn connect(items: &mut [Item], chain: &[usize]) {
    for pair in chain.windows(2) {
        let &[upper, lower] = pair else { continue };
        if let Some(item) = items.get_mut(upper) {
            item.below.push(lower);
        }
        if let Some(item) = items.get_mut(lower) {
            item.above.push(upper);
        }
    }
}

/// Where a row begins and ends, from top to bottom.
#[derive(Clone, Copy, Debug, Default)]
struct Band {
    top: f64,
    bottom: f64,
}

struct Rows {
    bands: Vec<Band>,
    /// The right end of the widest row.
    right: f64,
}

impl Rows {
    fn band(&self, items: &[Item], item: usize) -> Band {
        items.get(item).and_then(|item| self.bands.get(item.row)).copied().unwrap_or_default()
    }

    /// Where an edge passes through a row: straight down, so that it cannot touch the nodes beside it.
    fn through(&self, items: &[Item], item: usize, x: f64) -> [Point; 2] {
        let Band { top, bottom } = self.band(items, item);
        [Point { x, y: top }, Point { x, y: bottom }]
    }
}

fn courses(
    diagram: &Diagram,
    items: &[Item],
    chains: &[Chain],
    points: &[Point],
    rows: &Rows,
) -> Vec<Course> {
    let ports = place::Ports::new(items, points);
    let at = |item: usize| points.get(item).copied().unwrap_or_default();
    let mut lane = rows.right;
    let mut courses = Vec::with_capacity(chains.len());
    for (chain, edge) in chains.iter().zip(&diagram.edges) {
        let (Some(&first), Some(&last)) = (chain.items.first(), chain.items.last()) else { continue };
        if edge.from == edge.to {
            courses.push(Course { points: Vec::new(), label: None });
            continue;
        }
        let from = ports.below(items, points, first, chain.items.get(1).copied());
        let to = ports.above(items, points, last, chain.items.iter().rev().nth(1).copied());
        // A node may be lower than its row.
        let mut course = vec![from, Point { x: from.x, y: rows.band(items, first).bottom }];
        let between = chain.items.get(1..chain.items.len() - 1).unwrap_or_default();
        for &item in between {
            match items.get(item).is_some_and(|item| item.row % 2 == 0) {
                true => course.extend(rows.through(items, item, at(item).x)),
                false => course.push(at(item)),
            }
        }
        let spans_rows =
            items.get(last).map_or(0, |item| item.row) > items.get(first).map_or(0, |item| item.row) + 1;
        if between.is_empty() && spans_rows {
            lane += LANE_GAP;
            let (upper, lower) = (rows.band(items, first), rows.band(items, last));
            course.push(Point { x: lane, y: upper.bottom + ROW_GAP });
            course.push(Point { x: lane, y: lower.top - ROW_GAP });
        }
        course.extend([Point { x: to.x, y: rows.band(items, last).top }, to]);
        course.dedup();
        let label = chain.label.map(at).or_else(|| middle(&course).filter(|_| between.is_empty()));
        if chain.is_turned {
            course.reverse();
        }
        courses.push(Course { points: course, label });
    }
    courses
}

/// The middle of the longest part of an edge without a label of its own.
fn middle(course: &[Point]) -> Option<Point> {
    let length = |pair: &&[Point]| match pair {
        [from, to] => (to.x - from.x).hypot(to.y - from.y),
        _ => 0.0,
    };
    let longest = course.windows(2).max_by(|one, other| length(one).total_cmp(&length(other)))?;
    let (first, last) = (longest.first()?, longest.last()?);
    Some(Point { x: f64::midpoint(first.x, last.x), y: f64::midpoint(first.y, last.y) })
}
