//! Runs, tested without any process, disk or clock.

#[cfg(test)]
mod allocations;
#[cfg(test)]
mod asks;
#[cfg(test)]
mod bounds;
#[cfg(test)]
mod closing;
#[cfg(test)]
mod delays;
#[cfg(test)]
mod documents;
#[cfg(test)]
mod effects;
#[cfg(test)]
mod exclusive;
mod failures;
#[cfg(test)]
mod folding;
#[cfg(test)]
mod growth;
#[cfg(test)]
mod joins;
#[cfg(test)]
mod losses;
#[cfg(test)]
mod model;
#[cfg(test)]
mod money;
#[cfg(test)]
mod play;
#[cfg(test)]
mod program;
#[cfg(test)]
mod resuming;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod show;
#[cfg(test)]
mod stale;
#[cfg(test)]
mod stays;
#[cfg(test)]
mod totality;
#[cfg(test)]
mod transitions;
#[cfg(test)]
mod turns;
