//! The audit: does what is left in memory agree with every gradient passing exactly once?
//!
//! Three witnesses are held against each other, and each was written by somebody else: the server's
//! log (one entry a version), the learners' own accounts (what each life pushed, and what it knows
//! to be committed), and the weights themselves, done again from nothing in the order of the log.
//! The evidence is plain values, the examination a plain function: each check below has a test
//! that doctors honest evidence and sees it fail.
//!
//! | check | carries |
//! |---|---|
//! | tickets of each learner follow each other without gap or repetition | P2 |
//! | what a life knows to be committed is applied or still in the ring, and nothing it did not push | P8 |
//! | a life whose ring was sealed committed nothing after that | P8 |
//! | payloads arrived as they were computed | P3 |
//! | weights equal the sums done again, bit for bit | P2, P9 |
//! | no pull held less than it claimed | P5 |
//! | no gradient was computed ahead of its slack; BSP rounds are whole and in order | P6 |
//! | the budget is exact; a drained run leaves nothing in any ring | P10, P11 |

mod evidence;
mod finding;
#[cfg(test)]
mod tests;

use protocol::clock::Slack;
use protocol::server::Synchrony;

use super::arithmetic::{WORDS, checksum, fold, gradient};
use super::memory::Entry;
use evidence::Account;
pub(crate) use evidence::{Evidence, Seal};
pub(crate) use finding::Finding;

/// The outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audit {
    pub(crate) findings: Vec<Finding>,
    /// Gradients that were committed and not applied, though they were due.
    pub(crate) lost: u64,
    /// Gradients that were applied more than once.
    pub(crate) repeated: u64,
    /// Gradients applied, by seat.
    pub(crate) applied: Vec<u64>,
    /// Updates between a gradient's weights and its application.
    pub(crate) median_staleness: u64,
    pub(crate) max_staleness: u64,
}

/// Examines the evidence.
pub(crate) fn examine(evidence: &Evidence) -> Audit {
    let mut audit = Audit::default();
    let entries = whole_log(evidence, &mut audit);
    follow_tickets(evidence, &entries, &mut audit);
    hold_accounts(evidence, &entries, &mut audit);
    check_seals(evidence, &entries, &mut audit);
    follow_clocks(evidence, &entries, &mut audit);
    do_the_sums_again(evidence, &entries, &mut audit);
    check_slack(evidence, &entries, &mut audit);
    check_rounds(evidence, &entries, &mut audit);
    check_the_end(evidence, &mut audit);
    measure_staleness(&entries, &mut audit);
    audit
}

/// The entries with their versions; those that are missing or by nobody are findings.
fn whole_log(evidence: &Evidence, audit: &mut Audit) -> Vec<(u64, Entry)> {
    let mut entries = Vec::with_capacity(evidence.log.len());
    for (version, entry) in (1..).zip(&evidence.log) {
        let Some(entry) = *entry else {
            audit.findings.push(Finding::Unlogged { version });
            continue;
        };
        let Entry { learner, epoch, .. } = entry;
        let lives = evidence.seats.get(learner as usize).map_or(0, |seat| seat.lives.len());
        if epoch == 0 || epoch as usize > lives {
            audit.findings.push(Finding::Stranger { version, learner, epoch });
            continue;
        }
        entries.push((version, entry));
    }
    entries
}

fn follow_tickets(evidence: &Evidence, entries: &[(u64, Entry)], audit: &mut Audit) {
    let mut due = vec![0; evidence.seats.len()];
    audit.applied = due.clone();
    for &(version, Entry { learner, ticket, .. }) in entries {
        let due = &mut due[learner as usize];
        audit.applied[learner as usize] += 1;
        if ticket < *due {
            audit.repeated += 1;
            audit.findings.push(Finding::Repeated { version, learner, ticket });
            continue;
        }
        if ticket > *due {
            audit.lost += ticket - *due;
            let (from, to) = (*due, ticket - 1);
            audit.findings.push(Finding::Skipped { version, learner, from, to });
        }
        *due = ticket + 1;
    }
    for (learner, seat) in evidence.seats.iter().enumerate() {
        let applied = audit.applied[learner];
        if seat.taken != applied {
            audit.findings.push(Finding::Taken { learner, taken: seat.taken, applied });
        }
    }
}

fn hold_accounts(evidence: &Evidence, entries: &[(u64, Entry)], audit: &mut Audit) {
    let lives = evidence.seats.iter().map(|seat| vec![0; seat.lives.len()]);
    let mut arrived: Vec<Vec<u64>> = lives.collect();
    for (_, Entry { learner, epoch, .. }) in entries {
        arrived[*learner as usize][*epoch as usize - 1] += 1;
    }
    for (learner, seat) in evidence.seats.iter().enumerate() {
        for (epoch, account) in (1..).zip(&seat.lives) {
            let left = if epoch == seat.granted { seat.left } else { 0 };
            let found = arrived[learner][epoch as usize - 1] + left;
            let Account { acknowledged, pushed, lies, .. } = *account;
            if found < acknowledged {
                audit.lost += acknowledged - found;
                audit.findings.push(Finding::Lost { learner, epoch, acknowledged, found });
            }
            if found > pushed {
                audit.findings.push(Finding::Forged { learner, epoch, pushed, found });
            }
            if lies > 0 {
                audit.findings.push(Finding::Lies { learner, epoch, lies });
            }
        }
    }
}

/// A life whose ring was sealed has committed nothing since.
fn check_seals(evidence: &Evidence, entries: &[(u64, Entry)], audit: &mut Audit) {
    for &Seal { learner, epoch, tickets: sealed } in &evidence.seals {
        let of_life = |entry: &Entry| entry.learner as usize == learner && entry.epoch <= epoch;
        let found = entries.iter().filter(|(_, entry)| of_life(entry)).count() as u64;
        if found != sealed {
            audit.findings.push(Finding::LateCommit { learner, epoch, sealed, found });
        }
    }
}

fn follow_clocks(evidence: &Evidence, entries: &[(u64, Entry)], audit: &mut Audit) {
    let keeps_seats = evidence.setup.keeps_seats();
    let mut last: Vec<Option<(u32, u64)>> = vec![None; evidence.seats.len()];
    for &(version, Entry { learner, epoch, clock: found, .. }) in entries {
        let last = &mut last[learner as usize];
        let account = &evidence.seats[learner as usize].lives[epoch as usize - 1];
        let expected = match *last {
            Some((life, clock)) if life == epoch || keeps_seats => clock + 1,
            Some((life, _)) if life > epoch => 0,
            _ => account.first_clock,
        };
        if found != expected {
            audit.findings.push(Finding::Clock { version, learner, found, expected });
        }
        *last = Some((epoch, found));
    }
    for (learner, seat) in evidence.seats.iter().enumerate() {
        if let Some((epoch, expected)) = last[learner]
            && (epoch == seat.granted || keeps_seats)
            && seat.clock != expected
        {
            audit.findings.push(Finding::LastClock { learner, found: seat.clock, expected });
        }
    }
}

fn do_the_sums_again(evidence: &Evidence, entries: &[(u64, Entry)], audit: &mut Audit) {
    let setup = &evidence.setup;
    let mut weights = [0; WORDS];
    let mut history = vec![weights];
    for &(version, entry) in entries {
        let Entry { learner, epoch, ticket, clock, base_version, share, .. } = entry;
        if base_version >= version {
            audit.findings.push(Finding::FromTheFuture { version, learner, base_version });
        }
        let exact = setup.pulls_are_exact();
        let basis = history.get(base_version as usize).filter(|_| exact);
        let payload = gradient(setup.origin(learner, epoch, clock), basis);
        if checksum(&payload) != entry.checksum {
            audit.findings.push(Finding::Torn { version, learner, ticket });
        }
        for (index, weight) in weights.iter_mut().enumerate() {
            *weight = fold(*weight, payload[index], share, index);
        }
        if exact {
            history.push(weights);
        }
    }
    for (word, (&found, &expected)) in evidence.weights.iter().zip(&weights).enumerate() {
        if found != expected {
            audit.findings.push(Finding::Weights { word, found, expected });
        }
    }
}

/// Whatever was applied after a gradient's weights were read is less than `slack` + 1 clocks
/// behind it. Minima never fall and who joins starts at one, so this holds across deaths.
fn check_slack(evidence: &Evidence, entries: &[(u64, Entry)], audit: &mut Audit) {
    let Slack::Bounded(slack) = evidence.setup.sync.slack() else { return };
    // The smallest clock among the entries from here on.
    let mut smallest = vec![u64::MAX; evidence.log.len() + 1];
    for &(version, entry) in entries.iter().rev() {
        smallest[version as usize - 1] = smallest[version as usize].min(entry.clock);
    }
    for &(version, Entry { learner, clock, base_version, .. }) in entries {
        let behind = smallest.get(base_version as usize).copied().unwrap_or(u64::MAX);
        if behind.saturating_add(slack) < clock {
            audit.findings.push(Finding::Ahead { version, learner, clock, behind });
        }
    }
}

/// A BSP round is its members in seat order at one clock. Everybody is one, unless the dead were
/// given up; only the last round may be cut short by the budget.
fn check_rounds(evidence: &Evidence, entries: &[(u64, Entry)], audit: &mut Audit) {
    let setup = &evidence.setup;
    if setup.sync.synchrony() != Synchrony::Averaged {
        return;
    }
    let mut rest = entries;
    while let Some(&(_, Entry { share, clock, .. })) = rest.first() {
        let (round, later) = rest.split_at((share as usize).min(rest.len()));
        let may_be_small = setup.evict || later.is_empty();
        let whole =
            round.len() == share as usize && (may_be_small || round.len() == evidence.seats.len());
        let mut seats = 0..evidence.seats.len() as u32;
        for &(version, entry) in round {
            let in_turn = seats.any(|seat| seat == entry.learner);
            if !whole || !in_turn || (entry.clock, entry.share) != (clock, share) {
                audit.findings.push(Finding::Round { version, learner: entry.learner });
            }
        }
        rest = later;
    }
}

fn check_the_end(evidence: &Evidence, audit: &mut Audit) {
    let Evidence { setup, version, evictions, .. } = evidence;
    if !setup.drain && *version != setup.gradients {
        audit.findings.push(Finding::Version { found: *version, expected: setup.gradients });
    }
    if *evictions > 0 {
        audit.findings.push(Finding::Evictions { count: *evictions });
    }
    if !evidence.idle {
        audit.findings.push(Finding::NotIdle);
    }
    for (learner, seat) in evidence.seats.iter().enumerate() {
        let excess = if setup.drain { 0 } else { setup.capacity as u64 };
        if seat.left > excess {
            audit.lost += seat.left - excess;
            audit.findings.push(Finding::LeftBehind { learner, left: seat.left });
        }
        if seat.held {
            audit.findings.push(Finding::Held { learner });
        }
    }
}

fn measure_staleness(entries: &[(u64, Entry)], audit: &mut Audit) {
    let mut staleness: Vec<u64> = entries
        .iter()
        .map(|(version, entry)| (version - 1).saturating_sub(entry.base_version))
        .collect();
    staleness.sort_unstable();
    audit.median_staleness = staleness.get(staleness.len() / 2).copied().unwrap_or(0);
    audit.max_staleness = staleness.last().copied().unwrap_or(0);
}
