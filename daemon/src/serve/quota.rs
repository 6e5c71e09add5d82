//! How much memory the rings may have that one process asked for.

use std::collections::BTreeMap;

use backcast_core::{Kind, ObjectInfo, list};

use super::caller::Caller;
use super::shared::Shared;
use crate::units;
use crate::wire::{Code, OverQuota, Refusal};

/// Rings that a refusal names.
const NAMED: usize = 3;

/// What one caller may have.
#[derive(Debug)]
pub(crate) struct Share {
    quota_bytes: u64,
    caller: Caller,
    /// Its rings, but for the one that it asks for.
    rings: Vec<(String, u64)>,
}

impl Share {
    /// Of a caller who asks for a ring of that name. `None`: there is no quota.
    pub(crate) fn of(shared: &Shared, caller: Caller, name: &str) -> Result<Option<Self>, Refusal> {
        let Some(quota_bytes) = shared.live().quota_bytes else { return Ok(None) };
        let objects = list(&shared.base)?;
        let mut rings: Vec<(String, u64)> = of_callers(&objects)
            .filter(|(asked, info)| *asked == caller && info.name != name)
            .map(|(_, info)| (info.name.clone(), info.bytes))
            .collect();
        rings.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        Ok(Some(Self { quota_bytes, caller, rings }))
    }

    fn held(&self) -> u64 {
        self.rings.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Bytes that the ring may have.
    pub(crate) fn left(&self) -> u64 {
        self.quota_bytes.saturating_sub(self.held())
    }

    /// Why the ring cannot have so many.
    pub(crate) fn refusal(&self, name: &str, asked_bytes: u64) -> Refusal {
        let numbers = OverQuota {
            quota_bytes: self.quota_bytes,
            held_bytes: self.held(),
            asked_bytes,
            pid: self.caller.pid(),
            largest: self.rings.iter().take(NAMED).cloned().collect(),
        };
        let message = explain(name, &numbers);
        Refusal { over_quota: Some(Box::new(numbers)), ..Refusal::new(Code::OverQuota, message) }
    }
}

/// Whether a caller may have a ring of so many bytes under a name. The turn is the caller's.
pub(crate) fn check(
    shared: &Shared,
    caller: Caller,
    name: &str,
    asked_bytes: u64,
) -> Result<(), Refusal> {
    match Share::of(shared, caller, name)? {
        Some(share) if asked_bytes > share.left() => Err(share.refusal(name, asked_bytes)),
        _ => Ok(()),
    }
}

/// Bytes of the rings of each caller that is there.
pub(crate) fn by_caller(objects: &[ObjectInfo]) -> BTreeMap<Caller, u64> {
    let mut all = BTreeMap::new();
    for (caller, info) in of_callers(objects) {
        *all.entry(caller).or_default() += info.bytes;
    }
    all
}

fn of_callers(objects: &[ObjectInfo]) -> impl Iterator<Item = (Caller, &ObjectInfo)> {
    let rings = objects.iter().filter(|info| info.kind == Kind::Ring && !info.building);
    rings.filter_map(|info| Some((Caller::that_asked_for(&info.path)?, info)))
}

fn explain(name: &str, over: &OverQuota) -> String {
    let OverQuota { quota_bytes, held_bytes, asked_bytes, pid, largest } = over;
    let who = pid.map_or_else(
        || "processes that the kernel does not name together".to_owned(),
        |pid| format!("process {pid}"),
    );
    let named: Vec<String> =
        largest.iter().map(|(name, bytes)| format!("{name} {}", units::bytes(*bytes))).collect();
    let of = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
    format!(
        "ring `{name}` needs {}, and rings that {who} asked for have {}{of} of a quota of {}; ask \
         for a smaller capacity, remove what is not needed (`backcast rm NAME`), or give the daemon \
         a larger --quota",
        units::bytes(*asked_bytes),
        units::bytes(*held_bytes),
        units::bytes(*quota_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_every_number_and_what_to_do() {
        let mut over = OverQuota {
            quota_bytes: 2 << 30,
            held_bytes: 3 << 29,
            asked_bytes: 1 << 30,
            pid: Some(77),
            largest: vec![("pong".into(), 1 << 30), ("atari".into(), 1 << 29)],
        };
        let text = explain("new", &over);
        for part in ["`new`", "1 GiB", "2 GiB", "1.5 GiB", "process 77", "atari 512 MiB", "--quota"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        over.pid = None;
        assert!(explain("new", &over).contains("does not name"));
    }
}
