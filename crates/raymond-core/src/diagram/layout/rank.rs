//! The rank of each node, from top to bottom.

use super::super::Diagram;

/// The rank of each node from the top, and which edges were reversed for it.
pub(super) struct Ranking {
    pub(super) ranks: Vec<usize>,
    pub(super) turned: Vec<bool>,
}

pub(super) fn rank(diagram: &Diagram) -> Ranking {
    let count = diagram.nodes.len();
    let mut leaving: Vec<Vec<usize>> = vec![Vec::new(); count];
    for (number, edge) in diagram.edges.iter().enumerate() {
        if let Some(edges) = leaving.get_mut(edge.from) {
            edges.push(number);
        }
    }
    let turned = turned(diagram, &leaving);
    let mut ranks = longest_paths(diagram, &turned);
    pull_down(diagram, &turned, &mut ranks);
    Ranking { ranks, turned }
}

#[derive(Clone, Copy, PartialEq)]
enum Visit {
    Never,
    Open,
    Done,
}

/// The edges that lead back to a node on the path to them, and so close a cycle.
fn turned(diagram: &Diagram, leaving: &[Vec<usize>]) -> Vec<bool> {
    let mut turned = vec![false; diagram.edges.len()];
    let mut visits = vec![Visit::Never; diagram.nodes.len()];
    for start in 0..diagram.nodes.len() {
        if visits.get(start) != Some(&Visit::Never) {
            continue;
        }
        let mut path = vec![(start, 0)];
        set(&mut visits, start, Visit::Open);
        while let Some((at, followed)) = path.pop() {
            let Some(&number) = leaving.get(at).and_then(|edges| edges.get(followed)) else {
                set(&mut visits, at, Visit::Done);
                continue;
            };
            path.push((at, followed + 1));
            let Some(target) = diagram.edges.get(number).map(|edge| edge.to) else { continue };
            match visits.get(target) {
                Some(Visit::Never) => {
                    set(&mut visits, target, Visit::Open);
                    path.push((target, 0));
                }
                Some(Visit::Open) => set(&mut turned, number, true),
                _ => {}
            }
        }
    }
    turned
}

fn set<T>(list: &mut [T], at: usize, value: T) {
    if let Some(place) = list.get_mut(at) {
        *place = value;
    }
}

/// The ends of each edge from the upper to the lower node, without loops.
fn downward<'d>(diagram: &'d Diagram, turned: &'d [bool]) -> impl Iterator<Item = (usize, usize)> + 'd {
    let ends = diagram.edges.iter().zip(turned).map(|(edge, is_turned)| match is_turned {
        true => (edge.to, edge.from),
        false => (edge.from, edge.to),
    });
    ends.filter(|(upper, lower)| upper != lower)
}

fn longest_paths(diagram: &Diagram, turned: &[bool]) -> Vec<usize> {
    let count = diagram.nodes.len();
    let mut below: Vec<Vec<usize>> = vec![Vec::new(); count];
    let mut waits_for = vec![0_usize; count];
    for (upper, lower) in downward(diagram, turned) {
        if let (Some(targets), Some(waits)) = (below.get_mut(upper), waits_for.get_mut(lower)) {
            targets.push(lower);
            *waits += 1;
        }
    }
    let mut ranks = vec![0_usize; count];
    let mut ready: Vec<usize> = (0..count).filter(|node| waits_for.get(*node) == Some(&0)).collect();
    while let Some(node) = ready.pop() {
        let next = ranks.get(node).map_or(0, |rank| rank + 1);
        for lower in below.get(node).into_iter().flatten() {
            if let (Some(rank), Some(waits)) = (ranks.get_mut(*lower), waits_for.get_mut(*lower)) {
                *rank = (*rank).max(next);
                *waits -= 1;
                if *waits == 0 {
                    ready.push(*lower);
                }
            }
        }
    }
    ranks
}

/// Nodes without incoming edges are placed just above the nodes they lead to, not all in the first row.
fn pull_down(diagram: &Diagram, turned: &[bool], ranks: &mut [usize]) {
    let mut has_above = vec![false; ranks.len()];
    let mut nearest: Vec<Option<usize>> = vec![None; ranks.len()];
    for (upper, lower) in downward(diagram, turned) {
        set(&mut has_above, lower, true);
        let rank = ranks.get(lower).copied().unwrap_or_default();
        if let Some(nearest) = nearest.get_mut(upper) {
            *nearest = Some(nearest.map_or(rank, |known| known.min(rank)));
        }
    }
    for ((rank, has_above), nearest) in ranks.iter_mut().zip(has_above).zip(nearest) {
        if let (false, Some(nearest)) = (has_above, nearest) {
            *rank = nearest.saturating_sub(1);
        }
    }
}
