//! Compares an existing ring with the one that was requested.

use super::RingStore;
use crate::error::{ObjectKind, SegmentError};
use crate::layout::column::Column;
use crate::layout::geometry::RingSpec;
use crate::layout::lane_policy::LanePolicy;
use crate::layout::limiter_table::LimitBytes;

impl RingStore {
    pub(crate) fn check_same(&self, name: &str, asked: &RingSpec) -> Result<(), SegmentError> {
        let different = |what: String| {
            Err(SegmentError::Different { kind: ObjectKind::Ring, name: name.to_owned(), what })
        };
        let mine = &self.spec;
        for i in 0..mine.columns.len().max(asked.columns.len()) {
            let (there, here) = (mine.columns.get(i), asked.columns.get(i));
            if there != here {
                let show = |c: Option<&Column>| {
                    c.map_or("no column".to_owned(), |c| {
                        format!(
                            "`{}` {} {:?} {}",
                            c.name(),
                            c.dtype(),
                            c.shape(),
                            c.role().as_str()
                        )
                    })
                };
                return different(format!(
                    "it has {}, but {} was requested",
                    show(there),
                    show(here)
                ));
            }
        }
        if mine.snapshot != asked.snapshot {
            let kind = |snapshot| if snapshot { "a snapshot" } else { "no snapshot" };
            let (there, here) = (kind(mine.snapshot), kind(asked.snapshot));
            return different(format!("it is {there}, but {here} was requested"));
        }
        // A caller that requests sealed memory relies on it.
        if asked.memfd && !mine.memfd {
            return different("it is in files, but memfd was requested".to_owned());
        }
        if mine.lanes != asked.lanes {
            return different(format!(
                "it has {} lanes, but {} were requested",
                mine.lanes, asked.lanes
            ));
        }
        // A resized ring is still the one that its programs create.
        if ![mine.lane_capacity, self.origin.lane_capacity].contains(&asked.lane_capacity) {
            let (there, here) = (mine.lane_capacity, asked.lane_capacity);
            return different(format!("its lanes keep {there} rows, but {here} were requested"));
        }
        if mine.reader_slots != asked.reader_slots {
            let (there, here) = (mine.reader_slots, asked.reader_slots);
            return different(format!("it has {there} reader slots, but {here} were requested"));
        }
        // A program that asks for none follows the limiter of the ring.
        if let Some(what) = asked.limits.and_then(|asked| other_limits(asked, mine.limits)) {
            return different(format!("{what}; leave the limiter out to follow that of the ring"));
        }
        if mine.policy.to_words() != asked.policy.to_words() {
            let (there, here) = (mine.policy, asked.policy);
            let ms = |policy: LanePolicy| policy.timeout().as_millis();
            return different(format!(
                "its lane policy is {there} ({} ms), but {here} ({} ms) was requested",
                ms(there),
                ms(here)
            ));
        }
        Ok(())
    }
}

/// Says how the limits of a ring differ from those that were requested. `None` if they are equal.
fn other_limits(asked: LimitBytes, found: Option<LimitBytes>) -> Option<String> {
    let Some(found) = found else { return Some("it was created without a limiter".into()) };
    let [here, there] = [asked, found].map(|limits| {
        let LimitBytes { samples_per_insert, min_size, min_diff, max_diff, .. } = limits;
        let [ratio, least, most] = [samples_per_insert, min_diff, max_diff].map(f64::from_bits);
        [
            ("samples_per_insert", ratio.to_string()),
            ("min_size", min_size.to_string()),
            ("error band", format!("{least} to {most}")),
        ]
    });
    let mut pairs = there.into_iter().zip(here).filter(|(there, here)| there != here);
    if let Some(((what, there), (_, here))) = pairs.next() {
        return Some(format!(
            "its limiter was created with {what} {there}, but {here} was requested"
        ));
    }
    (asked.switches != found.switches).then(|| {
        "its limiter was created with another choice for absent writers or learners, or for being \
         on or off"
            .into()
    })
}
