//! hunt
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use verify::loom_platform::{Loom, explore_within};
use verify::mutant::{Mutant, mutable_sites, with_mutation};
use verify::shuttle_platform::{Shuttle, Strategy, sample};
use verify::{Order, models};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args.len() == 4 {
        let site = mutable_sites().find(|s| s.name() == args[1]).unwrap();
        let r = with_mutation(Some(site), || {
            if args[2] == "loom" {
                let case = models::catalogue::<Mutant<Loom>>()
                    .into_iter()
                    .find(|c| c.name == args[3])
                    .unwrap();
                for o in [Order::Forward, Order::Backward] {
                    let e = explore_within(&case, o, Some(2));
                    for out in e.outcomes {
                        assert!(case.outcomes.contains(&&*out), "unexpected outcome {out}");
                    }
                }
            } else {
                let case = models::catalogue::<Mutant<Shuttle>>()
                    .into_iter()
                    .find(|c| c.name == args[3])
                    .unwrap();
                for s in [Strategy::Random, Strategy::Pct(3)] {
                    let e = sample(&case, s, 7, 300);
                    for out in e.seen() {
                        assert!(case.outcomes.contains(&&*out), "unexpected outcome {out}");
                    }
                }
            }
        });
        return r;
    }
    let filter = args.get(1).cloned().unwrap_or_default();
    for site in mutable_sites() {
        if !site.name().contains(&filter) {
            continue;
        }
        let mut kills = vec![];
        let mut all: Vec<(&str, &str)> = vec![];
        for c in models::catalogue::<Loom>() {
            if c.loom.is_some() {
                all.push(("loom", c.name));
            }
        }
        for c in models::catalogue::<Shuttle>() {
            if c.shuttle && c.variants == 1 {
                all.push(("shuttle", c.name));
            }
        }
        for (checker, name) in all {
            if kills.len() >= 2 {
                break;
            }
            let mut child = Command::new(&args[0])
                .args([site.name(), checker, name])
                .env("RUST_BACKTRACE", "0")
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let start = Instant::now();
            let status = loop {
                if let Some(s) = child.try_wait().unwrap() {
                    break Some(s);
                }
                if start.elapsed() > Duration::from_secs(40) {
                    child.kill().unwrap();
                    child.wait().unwrap();
                    break None;
                }
                std::thread::sleep(Duration::from_millis(2));
            };
            let mut err = String::new();
            use std::io::Read;
            child.stderr.take().unwrap().read_to_string(&mut err).ok();
            match status {
                Some(s) if s.success() => {}
                Some(_) => {
                    let mut lines = err.lines().skip_while(|l| !l.contains("panicked"));
                    lines.next();
                    kills.push(format!(
                        "{checker}:{name} [{:?}] {}",
                        start.elapsed(),
                        lines.next().unwrap_or("?")
                    ))
                }
                None => kills.push(format!("TIMEOUT {checker}:{name}")),
            }
        }
        println!(
            "{} {:?}: {}",
            site.name(),
            site.kind(),
            if kills.is_empty() { "SURVIVED".into() } else { kills.join(" | ") }
        );
    }
}
