//! Reachability, in time linear in states and edges.

/// For each node the nodes it leads to, as numbers.
pub type Edges = Vec<Vec<usize>>;

/// Which nodes can be reached from the starts; the starts are included.
pub fn reachable(edges: &Edges, starts: impl IntoIterator<Item = usize>) -> Vec<bool> {
    let mut reached = vec![false; edges.len()];
    let mut to_visit: Vec<usize> = starts.into_iter().collect();
    while let Some(at) = to_visit.pop() {
        match reached.get_mut(at) {
            Some(known) if !*known => *known = true,
            _ => continue,
        }
        to_visit.extend(edges.get(at).into_iter().flatten());
    }
    reached
}

/// The same edges in the opposite direction.
pub fn reversed(edges: &Edges) -> Edges {
    let mut reversed: Edges = vec![Vec::new(); edges.len()];
    for (from, targets) in edges.iter().enumerate() {
        for target in targets {
            if let Some(sources) = reversed.get_mut(*target) {
                sources.push(from);
            }
        }
    }
    reversed
}

/// The strongly connected components, by Tarjan's algorithm without recursion.
pub fn components(edges: &Edges) -> Vec<Vec<usize>> {
    let mut search = Search {
        edges,
        order: vec![None; edges.len()],
        low: vec![0; edges.len()],
        on_stack: vec![false; edges.len()],
        stack: Vec::new(),
        counter: 0,
        found: Vec::new(),
    };
    for start in 0..edges.len() {
        if search.order.get(start).is_some_and(Option::is_none) {
            search.visit(start);
        }
    }
    search.found
}

struct Search<'e> {
    edges: &'e Edges,
    order: Vec<Option<usize>>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    counter: usize,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, start: usize) {
        // Each entry is a node and how many of its edges have been followed.
        let mut path = vec![(start, 0)];
        self.open(start);
        while let Some((at, followed)) = path.pop() {
            let Some(&target) = self.edges.get(at).and_then(|targets| targets.get(followed)) else {
                self.close(at, path.last().map(|(parent, _)| *parent));
                continue;
            };
            path.push((at, followed + 1));
            match self.order.get(target).copied() {
                Some(None) => {
                    self.open(target);
                    path.push((target, 0));
                }
                Some(Some(order)) if self.on_stack.get(target) == Some(&true) => self.lower(at, order),
                _ => {}
            }
        }
    }

    fn open(&mut self, at: usize) {
        if let (Some(order), Some(low), Some(on_stack)) =
            (self.order.get_mut(at), self.low.get_mut(at), self.on_stack.get_mut(at))
        {
            *order = Some(self.counter);
            *low = self.counter;
            *on_stack = true;
        }
        self.counter += 1;
        self.stack.push(at);
    }

    fn lower(&mut self, at: usize, to: usize) {
        if let Some(low) = self.low.get_mut(at) {
            *low = (*low).min(to);
        }
    }

    fn close(&mut self, at: usize, parent: Option<usize>) {
        let low = self.low.get(at).copied().unwrap_or_default();
        if let Some(parent) = parent {
            self.lower(parent, low);
        }
        if self.order.get(at).copied().flatten() != Some(low) {
            return;
        }
        let mut component = Vec::new();
        while let Some(member) = self.stack.pop() {
            if let Some(on_stack) = self.on_stack.get_mut(member) {
                *on_stack = false;
            }
            component.push(member);
            if member == at {
                break;
            }
        }
        component.sort_unstable();
        self.found.push(component);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_found() {
        // 0 → 1 → 2 → 1, 2 → 3, 4 → 4
        let edges: Edges = vec![vec![1], vec![2], vec![1, 3], vec![], vec![4]];
        let mut found = components(&edges);
        found.sort();
        assert_eq!(found, [vec![0], vec![1, 2], vec![3], vec![4]]);
        assert_eq!(reachable(&edges, [1]), [false, true, true, true, false]);
        assert_eq!(reachable(&reversed(&edges), [3]), [true, true, true, true, false]);
    }

    #[test]
    fn long_chains_need_no_deep_stack() {
        let edges: Edges = (0..200_000).map(|at| vec![(at + 1) % 200_000]).collect();
        assert_eq!(components(&edges).len(), 1);
    }
}
