//! crash
use verify::crash::{Recorded, catalogue, explore};
#[test]
fn all() {
    for s in catalogue::<Recorded>() {
        let t = std::time::Instant::now();
        match explore(&s) {
            Ok(tally) => println!("{}: {tally:?} {:?}", s.name, t.elapsed()),
            Err(b) => println!("{}: BREACH {b}", s.name),
        }
    }
}
