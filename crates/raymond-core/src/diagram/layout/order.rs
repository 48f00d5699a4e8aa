//! The order of the items in each row, so that few edges cross.

use super::Item;

/// More sweeps change little.
const SWEEPS: usize = 12;

/// The items of each row from left to right.
pub(super) fn order(items: &[Item]) -> Vec<Vec<usize>> {
    let row_count = items.iter().map(|item| item.row + 1).max().unwrap_or_default();
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); row_count];
    for item in depth_first(items) {
        if let Some(row) = items.get(item).and_then(|item| rows.get_mut(item.row)) {
            row.push(item);
        }
    }
    let mut places = vec![0.0; items.len()];
    for row in &rows {
        note_places(row, &mut places);
    }
    for sweep in 0..SWEEPS {
        let is_downward = sweep % 2 == 0;
        let numbers: Vec<usize> =
            if is_downward { (0..row_count).collect() } else { (0..row_count).rev().collect() };
        for number in numbers {
            let Some(row) = rows.get_mut(number) else { continue };
            sort_row(items, row, &places, is_downward);
            note_places(row, &mut places);
        }
    }
    rows
}

/// A depth-first order places connected items next to each other, which is a good start.
fn depth_first(items: &[Item]) -> Vec<usize> {
    let mut order = Vec::with_capacity(items.len());
    let mut is_seen = vec![false; items.len()];
    for start in 0..items.len() {
        let mut to_visit = vec![start];
        while let Some(at) = to_visit.pop() {
            match is_seen.get_mut(at) {
                Some(seen) if !*seen => *seen = true,
                _ => continue,
            }
            order.push(at);
            to_visit.extend(items.get(at).into_iter().flat_map(|item| item.below.iter().rev()));
        }
    }
    order
}

/// Places are fractions of the row, so that rows of different lengths can be compared.
fn note_places(row: &[usize], places: &mut [f64]) {
    for (index, item) in row.iter().enumerate() {
        if let Some(place) = places.get_mut(*item) {
            *place = (index as f64 + 0.5) / row.len() as f64;
        }
    }
}

fn sort_row(items: &[Item], row: &mut [usize], places: &[f64], is_downward: bool) {
    let mut keyed: Vec<(f64, usize)> = row
        .iter()
        .map(|&number| {
            let neighbours =
                items.get(number).map(|item| if is_downward { &item.above } else { &item.below });
            let known: Vec<f64> = neighbours
                .into_iter()
                .flatten()
                .filter_map(|neighbour| places.get(*neighbour))
                .copied()
                .collect();
            let own = places.get(number).copied().unwrap_or_default();
            let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
            (if known.is_empty() { own } else { mean }, number)
        })
        .collect();
    keyed.sort_by(|one, other| one.0.total_cmp(&other.0));
    for (place, (_, number)) in row.iter_mut().zip(keyed) {
        *place = number;
    }
}
