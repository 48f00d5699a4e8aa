//! The layout of a diagram: layers from top to bottom, as people draw state machines.
//!
//! Edges that lead back are reversed, nodes get ranks, long edges and labels get their own items in the rows between,
//! each row is sorted so that few edges cross, and positions are chosen that keep edges short and straight. Every stage
//! is linear in the items, and the sweeps are few.

mod order;
mod place;
mod rank;

use super::Diagram;

/// An edge across more rows is drawn as one curve, so that a loop back to the start of a long chain stays cheap.
const MAX_ROWS_CROSSED: usize = 60;
const ROW_GAP: f64 = 18.0;
const MARGIN: f64 = 24.0;

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
    size: Size,
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

/// Lays out a diagram whose nodes and labels have these sizes.
pub fn layout(diagram: &Diagram, nodes: &[Size], labels: &[Size]) -> Layout {
    let ranking = rank::rank(diagram);
    let mut items: Vec<Item> =
        nodes.iter().zip(&ranking.ranks).map(|(size, rank)| Item::new(*size, rank * 2, true)).collect();
    let mut chains = Vec::with_capacity(diagram.edges.len());
    for ((edge, label), is_turned) in diagram.edges.iter().zip(labels).zip(&ranking.turned) {
        let (upper, lower) = if *is_turned { (edge.to, edge.from) } else { (edge.from, edge.to) };
        chains.push(chain(&mut items, upper, lower, *label, *is_turned));
    }
    let rows = order::order(&items);
    let mut points = place::across(&items, &rows);
    let height = place::down(&items, &rows, &mut points);
    let shift = place::leftmost(&items, &points) - MARGIN;
    for point in &mut points {
        point.x -= shift;
    }
    let edges: Vec<Course> = courses(diagram, &items, &chains, &points);
    let right = place::rightmost(&items, &points);
    let bulge = edges.iter().flat_map(|course| &course.points).map(|point| point.x).fold(0.0, f64::max);
    let size = Size { width: right.max(bulge) + 2.0 * MARGIN, height };
    points.truncate(nodes.len());
    Layout { size, nodes: points, edges }
}

impl Item {
    fn new(size: Size, row: usize, is_node: bool) -> Item {
        Item { size, row, is_node, above: Vec::new(), below: Vec::new() }
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

fn courses(diagram: &Diagram, items: &[Item], chains: &[Chain], points: &[Point]) -> Vec<Course> {
    let ports = place::Ports::new(items, points);
    let at = |item: usize| points.get(item).copied().unwrap_or_default();
    let course = |(chain, edge): (&Chain, &super::Edge)| {
        if edge.from == edge.to {
            return Course { points: Vec::new(), label: None };
        }
        let last = chain.items.len() - 1;
        let mut course: Vec<Point> = Vec::with_capacity(chain.items.len());
        for (index, item) in chain.items.iter().enumerate() {
            course.push(match index {
                0 => ports.below(items, points, *item, chain.items.get(1).copied()),
                index if index == last => {
                    ports.above(items, points, *item, chain.items.get(last - 1).copied())
                }
                _ => at(*item),
            });
        }
        let label = chain.label.map(at).or_else(|| middle(&course).filter(|_| last == 1));
        if chain.is_turned {
            course.reverse();
        }
        Course { points: course, label }
    };
    chains.iter().zip(&diagram.edges).map(course).collect()
}

fn middle(course: &[Point]) -> Option<Point> {
    let (first, last) = (course.first()?, course.last()?);
    Some(Point { x: f64::midpoint(first.x, last.x), y: f64::midpoint(first.y, last.y) })
}
