//! Names for every atomic access, fence, wake and check of the protocol (rule 7).
//!
//! Production compiles them away. A mutant breaks the protocol at exactly one of them, and a
//! checker must notice; [`Kind`] says what there is to break.

/// What a site is, and so what a mutant does to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// An atomic access with an ordering to weaken.
    Ordered,
    /// A fence to drop.
    Fence,
    /// A wake-up to drop.
    Wake,
    /// A check to leave out: its condition is taken to hold.
    Check,
    /// An access without an ordering: nothing to weaken.
    Plain,
}

macro_rules! sites {
    ($($kind:ident { $($(#[doc = $doc:literal])* $name:ident,)* })*) => {
        /// A place in the protocol's text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Site {
            $($($(#[doc = $doc])* $name,)*)*
        }

        impl Site {
            /// Every site.
            pub const ALL: &'static [Self] = &[$($(Self::$name,)*)*];

            /// What this site is.
            pub const fn kind(self) -> Kind {
                match self {
                    $($(Self::$name => Kind::$kind,)*)*
                }
            }

            /// The name of this site.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$name => stringify!($name),)*)*
                }
            }
        }
    };
}

sites! {
    Ordered {
        /// The commit point: release CAS on the tail.
        RingCommit,
        /// The consumer's acquire of the tail.
        RingPollTail,
        /// The consumer's release of a slot.
        RingRelease,
        /// The producer's acquire of the head when its cache says full.
        RingReserveHead,
        /// The producer's acquire of the head when it joins.
        RingJoinHead,
        /// Frees all slots of a ring that cannot be trusted.
        RingDiscard,
        /// The giver passes the buffer.
        HandoffGive,
        /// The taker sees that it was passed.
        HandoffGiven,
        /// The taker passes the buffer back.
        HandoffReturn,
        /// The giver sees that it is back.
        HandoffReturned,
        /// The giver closes, after everything it has given.
        HandoffGiverClose,
        /// The taker sees the close, before it looks for the last buffer.
        HandoffGiverClosed,
        /// The stamp becomes odd: after the intent, for a server that restarts; and carrying the
        /// version before on, for a reader that meets it.
        StampBegin,
        /// A version is published.
        StampFinish,
        /// A racy reader reads the version, before the copy.
        StampRead,
        /// A consistent reader reads the stamp before the copy.
        StampReadBefore,
        /// A reader asks, after it has read its last snapshot.
        SnapshotAsk,
        /// The server sees the question, before it overwrites the snapshot.
        SnapshotAsked,
        /// The server answers, after it has written the snapshot.
        SnapshotAnswer,
        /// The reader sees the answer, before it reads the snapshot.
        SnapshotLook,
        /// The mask of participants, for restarts, after the clocks of who is new in it.
        ClockParticipants,
        /// A minimum is published, after the weights.
        ClockPublish,
        /// A learner reads a minimum, before the weights.
        ClockLook,
        /// A seat changes its standing.
        SeatChange,
        /// Anybody reads a seat's standing.
        SeatLook,
        /// The intent is complete.
        JournalBegin,
        /// The undo record is complete.
        JournalMark,
        /// All blocks are written.
        JournalApplied,
        /// Everything after the update is done.
        JournalIdle,
        /// The share of a round is written before its members.
        JournalRoundBegin,
    }
    Fence {
        /// The waiter's half of the pair: announcement before re-check.
        BellAnnounceFence,
        /// The ringer's half of the pair: publication before look.
        BellRingFence,
        /// The odd stamp before the weights.
        StampBeginFence,
        /// The copy before the second look at the stamp.
        StampReadFence,
        /// The mark before the block.
        JournalMarkFence,
        /// The idle phase before the next intent.
        JournalIdleFence,
    }
    Wake {
        /// The wake itself.
        BellWake,
        /// After a commit.
        RingCommitBell,
        /// After the release of a slot.
        RingReleaseBell,
        /// After a seal.
        RingSealBell,
        /// After a refusal.
        RingRefuseBell,
        /// After a new life has stamped the ring.
        RingJoinBell,
        /// After a buffer was given.
        HandoffGiveBell,
        /// After a buffer was given back.
        HandoffReturnBell,
        /// After the giver has closed.
        HandoffGiverCloseBell,
        /// After the taker has closed.
        HandoffTakerCloseBell,
        /// After a minimum rose by a tick.
        ClockBell,
        /// After a minimum rose by a dismissal.
        DismissBell,
        /// After a seat was granted.
        SeatGrantBell,
        /// After a life has left.
        LeaveBell,
        /// After an eviction.
        EvictBell,
        /// After a reader has asked.
        SnapshotAskBell,
        /// After the server has answered.
        SnapshotBell,
        /// After a stop was requested.
        StopBell,
        /// After a server has started.
        AttachBell,
        /// After the watchdog has marked somebody dead.
        WatchdogBell,
    }
    Check {
        /// The poll between announcing and parking (forced: skipped).
        BellRecheck,
        /// A slot is free (forced: overwrites one in use).
        RingReserveFull,
        /// The tail lies within the ring.
        RingTailInRange,
        /// The header was written by the life that holds the seat.
        RingSameLife,
        /// The buffer is back (forced: the giver takes it from the taker).
        HandoffIsReturned,
        /// The buffer is given (forced: the taker takes it from the giver).
        HandoffIsGiven,
        /// The version is read before the copy (forced: after it, as the paper does).
        StampReadAfterCopy,
        /// No update is under way.
        StampIsStill,
        /// No update came in between.
        StampIsSame,
        /// The answer is to this reader's last question.
        SnapshotIsMine,
        /// The slack permits the clock.
        ClockBound,
        /// The gradient's clock is the one that is due.
        ClockInOrder,
        /// No round is under way (forced: grants a seat in the middle of one).
        SeatBetweenRounds,
        /// Nothing of an earlier life is left in the ring, and none can come.
        SeatHandedOver,
        /// Everything that a leaving or dead life committed has been applied.
        SeatDrained,
        /// Enough learners have joined to begin (forced: begins without them).
        Quorum,
        /// Every participant of a round is ready (forced: begins without them).
        RoundComplete,
    }
    Plain {
        /// An access of the caller's own: a kernel's, a model's.
        Caller,
        /// Sets the parked bit.
        BellAnnounce,
        /// Looks for the parked bit.
        BellLook,
        /// Clears the parked bit and counts the ring.
        BellBump,
        /// Parks.
        BellPark,
        /// A new life reads the tail.
        RingJoinTail,
        /// A new life stamps the tail; the release sequence of the last commit goes on.
        RingJoinStamp,
        /// A new server reads the head.
        RingAttachHead,
        /// A life ends its stream; the release sequence of the last commit goes on.
        RingSeal,
        /// The server ends the stream of a dead life.
        RingSealDead,
        /// The server takes no more, or takes again.
        RingRefuse,
        /// The producer looks whether it is refused.
        RingReserveRefused,
        /// The producer writes the payload.
        RingWritePayload,
        /// The producer writes the header.
        RingWriteHeader,
        /// The consumer reads the header.
        RingReadHeader,
        /// The consumer reads the payload.
        RingReadPayload,
        /// Reads the words when the ends are made.
        HandoffSplit,
        /// The taker closes.
        HandoffTakerClose,
        /// The giver sees that the taker has closed.
        HandoffTakerClosed,
        /// The giver works on the buffer.
        HandoffFill,
        /// The taker works on the buffer.
        HandoffEmpty,
        /// A new server reads the stamp.
        StampAttach,
        /// A consistent reader reads the stamp again; the fence before it orders it.
        StampReadAgain,
        /// A dashboard reads the version.
        StampWatch,
        /// The version of an answer, written before the answer.
        SnapshotVersion,
        /// The version of an answer, read after the answer.
        SnapshotReadVersion,
        /// A new life reads how often its seat has asked.
        SnapshotJoin,
        /// A new server reads how often a seat was answered.
        SnapshotAttach,
        /// An applied clock, for restarts and dashboards.
        ClockTick,
        /// Reads an applied clock; the seat's standing orders it.
        ClockApplied,
        /// A new server reads the clocks.
        ClockAttach,
        /// The life that is granted, for restarts.
        SeatGranted,
        /// A new server reads the life that was granted.
        SeatGrantedLook,
        /// A restarted server reads the phase.
        JournalFound,
        /// A lane starts from its first block.
        JournalReset,
        /// Where a lane stands.
        JournalLane,
        /// Writes the intent.
        JournalWriteIntent,
        /// Reads the intent.
        JournalReadIntent,
        /// Reads the round.
        JournalRoundFound,
        /// The size of a round.
        JournalShare,
        /// A member of a round is done, or evicted.
        JournalRoundStep,
        /// Somebody asks everybody to stop.
        StopRequest,
        /// Somebody looks whether to stop.
        StopLook,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_site_has_its_own_name_and_number() {
        for (number, site) in Site::ALL.iter().enumerate() {
            assert_eq!(*site as usize, number);
        }
    }
}
