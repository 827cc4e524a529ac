//! Everything there is to know about a run that does not go on, for whoever has to find out why.

use std::sync::atomic::Ordering::Relaxed;

use super::Watchdog;
use crate::soak::children::Process;

impl Watchdog<'_> {
    /// The state of the run, of every seat and of every process.
    pub(super) fn describe(&self) -> String {
        let (phase, intent) = self.run.journal().found();
        let mut lines = vec![format!(
            "version {}, stopping: {}, journal: {phase:?} towards version {} (learner {}, ticket {}), \
             server: {}\ngate at version {}, blows left: {}, next: {}",
            self.version(),
            self.run.is_stopping(),
            intent.version,
            intent.header.learner,
            intent.header.ticket,
            describe_process(self.server.as_ref()),
            self.area.gate.load(Relaxed),
            self.blows.len() + usize::from(self.armed.is_some()),
            self.armed.map_or_else(
                || format!("{:?}", self.blows.front()),
                |armed| format!("{:?}, due", armed.blow)
            ),
        )];
        for (learner, seat) in self.run.seats().iter().enumerate() {
            let standing = seat.standing();
            let account = self.area.life(learner, standing.epoch);
            lines.push(format!(
                "seat {learner}: {:?} in life {}, granted {}, applied clock {}, pushed {}, process: {}",
                standing.state,
                standing.epoch,
                seat.granted_epoch(),
                self.run.clocks().applied(0, learner),
                account.map_or(0, |account| account.pushed.load(Relaxed)),
                describe_process(self.learners[learner].as_ref()),
            ));
        }
        lines.join("\n")
    }
}

fn describe_process(process: Option<&Process>) -> String {
    match process {
        None => "gone".into(),
        Some(process) if process.stopped => format!("stopped by {:?}", process.struck),
        Some(process) => process
            .struck
            .map_or_else(|| "running".into(), |harm| format!("running, struck by {harm:?}")),
    }
}
