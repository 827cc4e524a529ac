//! Every memory that a kill in a stream of stores can leave.
//!
//! Fences cut the stream into sections: a store of one section is there only with all sections
//! before. Within a section the order of [`crash`](super) decides, and the sets that are closed
//! downwards in it are enumerated one by one: first the prefixes of the program, then the sets
//! that only a reordering compiler can leave. Images with equal contents are one.

use std::collections::HashSet;
use std::fmt;

use protocol::site::Site;

use super::memory::{Entry, Store};

/// More sets than this in one section mean a scenario that should be cut smaller.
const MOST_IN_A_SECTION: usize = 1 << 14;

/// The memory that a kill leaves, as a difference to the memory before the stream.
#[derive(Clone, Debug)]
pub struct Image {
    /// What the words hold that do not hold what they held.
    pub writes: Vec<(usize, u64)>,
    /// The last store of the program that was done.
    pub last: Option<Site>,
    /// Earlier stores of the program that were not done.
    pub overtaken: Vec<Site>,
}

impl Image {
    /// Whether the stores that were done are a prefix of the program.
    pub fn is_prefix(&self) -> bool {
        self.overtaken.is_empty()
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.last {
            None => write!(f, "before the first store")?,
            Some(site) => write!(f, "after {}", site.name())?,
        }
        for (index, run) in self.overtaken.chunk_by(|a, b| a == b).enumerate() {
            let lead = if index == 0 { ", which overtook" } else { "," };
            write!(f, "{lead} {}", run[0].name())?;
        }
        Ok(())
    }
}

/// Every image of `stream`: of each contents one, prefixes of the program first.
pub fn images(stream: &[Entry]) -> Vec<Image> {
    let sections = sections(stream);
    let mut images = Images::default();
    for prefixes in [true, false] {
        let mut before = Vec::new();
        let mut last = None;
        for section in &sections {
            let sets = if prefixes { prefixes_of(section) } else { closed_sets(section) };
            for set in sets {
                images.add(&before, last, section, set);
            }
            before.extend_from_slice(section);
            last = section.last().map(|store| store.site).or(last);
        }
    }
    images.found
}

/// The stores between fences. Relaxed stores that change nothing order nothing and are left out.
fn sections(stream: &[Entry]) -> Vec<Vec<Store>> {
    let mut sections = vec![Vec::new()];
    for entry in stream {
        match entry {
            Entry::Fence(_) => sections.push(Vec::new()),
            Entry::Store(store) if store.old == store.value && !store.is_release() => {}
            Entry::Store(store) => sections.last_mut().expect("starts with one").push(*store),
        }
    }
    // An empty section has one image, the memory before it: who stores nothing can be killed too.
    sections
}

/// Sets of stores of a section are masks.
fn prefixes_of(section: &[Store]) -> Vec<u64> {
    assert!(section.len() < 64, "a section of {} stores", section.len());
    (0..=section.len()).map(|count| (1 << count) - 1).collect()
}

/// All sets that hold with each store everything that comes before it.
fn closed_sets(section: &[Store]) -> Vec<u64> {
    assert!(section.len() < 64, "a section of {} stores", section.len());
    let mut sets = vec![0];
    for (index, store) in section.iter().enumerate() {
        let before = predecessors(section, index);
        for at in 0..sets.len() {
            let set: u64 = sets[at];
            if before & !set == 0 {
                sets.push(set | 1 << index);
            }
        }
        assert!(sets.len() <= MOST_IN_A_SECTION, "too many images around {store:?}");
    }
    sets
}

/// The stores that come before store `index` in every order that the compiler may choose.
fn predecessors(section: &[Store], index: usize) -> u64 {
    if section[index].is_release() {
        return (1 << index) - 1;
    }
    let same_word = |&earlier: &usize| section[earlier].word == section[index].word;
    (0..index).filter(same_word).fold(0, |mask, earlier| mask | 1 << earlier)
}

#[derive(Default)]
struct Images {
    seen: HashSet<Vec<(usize, u64)>>,
    found: Vec<Image>,
}

impl Images {
    fn add(&mut self, before: &[Store], last: Option<Site>, section: &[Store], set: u64) {
        let done = |index: &usize| set & (1 << index) != 0;
        let kept = (0..section.len()).filter(done).map(|index| &section[index]);
        let writes = contents(before.iter().chain(kept));
        if !self.seen.insert(writes.clone()) {
            return;
        }
        let newest = (0..section.len()).rfind(done);
        let overtaken = (0..newest.unwrap_or(0)).filter(|index| !done(index));
        self.found.push(Image {
            writes,
            last: newest.map(|index| section[index].site).or(last),
            overtaken: overtaken.map(|index| section[index].site).collect(),
        });
    }
}

/// What the words hold after these stores.
fn contents<'s>(stores: impl Iterator<Item = &'s Store>) -> Vec<(usize, u64)> {
    let mut words = std::collections::BTreeMap::new();
    for store in stores {
        words.entry(store.word).or_insert((store.old, store.value)).1 = store.value;
    }
    let changed = words.into_iter().filter(|(_, (old, new))| old != new);
    changed.map(|(word, (_, new))| (word, new)).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::{self, Relaxed, Release};

    use super::*;

    fn store(word: usize, value: u64, order: Ordering) -> Entry {
        Entry::Store(Store { word, site: Site::Caller, old: value - 1, value, order })
    }

    fn left(stream: &[Entry]) -> Vec<Vec<(usize, u64)>> {
        let mut left: Vec<_> = images(stream).into_iter().map(|image| image.writes).collect();
        left.sort();
        left
    }

    #[test]
    fn a_relaxed_store_may_overtake_another() {
        let stream = [store(0, 1, Relaxed), store(1, 1, Relaxed)];
        assert_eq!(left(&stream), [vec![], vec![(0, 1)], vec![(0, 1), (1, 1)], vec![(1, 1)]]);
        assert_eq!(images(&stream).iter().filter(|image| image.is_prefix()).count(), 3);
    }

    #[test]
    fn a_release_store_overtakes_none_but_can_be_overtaken() {
        let in_order = [store(0, 1, Relaxed), store(1, 1, Release)];
        assert_eq!(left(&in_order), [vec![], vec![(0, 1)], vec![(0, 1), (1, 1)]]);
        let overtaken = [store(0, 1, Release), store(1, 1, Relaxed)];
        assert_eq!(left(&overtaken), [vec![], vec![(0, 1)], vec![(0, 1), (1, 1)], vec![(1, 1)]]);
    }

    #[test]
    fn nothing_overtakes_a_fence_or_a_store_to_the_same_word() {
        let fence = Entry::Fence(Site::JournalMarkFence);
        let stream = [store(0, 1, Relaxed), fence, store(1, 1, Relaxed)];
        assert_eq!(left(&stream), [vec![], vec![(0, 1)], vec![(0, 1), (1, 1)]]);
        let stream = [store(0, 1, Relaxed), store(0, 2, Relaxed)];
        assert_eq!(left(&stream), [vec![], vec![(0, 1)], vec![(0, 2)]]);
    }

    /// The definition, without the cleverness: every order of the stream that keeps what the
    /// rules keep, cut at every point.
    fn by_definition(stream: &[Entry]) -> Vec<Vec<(usize, u64)>> {
        let keeps = |earlier: usize, later: usize| match (&stream[earlier], &stream[later]) {
            (Entry::Store(earlier), Entry::Store(later)) => {
                later.is_release() || earlier.word == later.word
            }
            _ => true,
        };
        let mut left = std::collections::BTreeSet::new();
        let mut orders = vec![Vec::new()];
        while let Some(order) = orders.pop() {
            let stores = order.iter().filter_map(|&index: &usize| match &stream[index] {
                Entry::Store(store) => Some(store),
                Entry::Fence(_) => None,
            });
            left.insert(contents(stores));
            for next in (0..stream.len()).filter(|next| !order.contains(next)) {
                if (0..next).all(|earlier| order.contains(&earlier) || !keeps(earlier, next)) {
                    orders.push([order.as_slice(), &[next]].concat());
                }
            }
        }
        left.into_iter().collect()
    }

    #[test]
    fn the_images_are_the_prefixes_of_every_order_that_the_rules_permit() {
        // All streams of five entries: a relaxed or a release store to one of two words, or a fence.
        for number in 0..5_usize.pow(5) {
            let mut values = [0; 2];
            let stream: Vec<_> = (0..5)
                .map(|place| match number / 5_usize.pow(place) % 5 {
                    4 => Entry::Fence(Site::JournalMarkFence),
                    kind => {
                        values[kind % 2] += 1;
                        store(kind % 2, values[kind % 2], if kind < 2 { Relaxed } else { Release })
                    }
                })
                .collect();
            assert_eq!(left(&stream), by_definition(&stream), "{stream:?}");
        }
    }
}
