//! Checks the objects of the directory for orphans, damage and other versions.

use backcast_core::Base;
use serde_json::json;

use super::finding::Finding;
use super::kernel::PageBytes;
use super::limits::RingExtent;
use crate::objects::catalogue::{self, Content, Entry, ObjectState, Obstacle};
use crate::text::units::bytes;

/// Summary of all objects.
#[derive(Debug, Default)]
pub(crate) struct ObjectSummary {
    pub(crate) rings: Vec<RingExtent>,
    pub(crate) pages: PageBytes,
    objects: usize,
    bytes: u64,
    orphans: Vec<(String, u64)>,
    remnants: Vec<(String, u64)>,
    damaged: Vec<(String, String)>,
    other_version: Vec<(String, String)>,
    denied: Vec<(String, String)>,
    unknown: Vec<(String, String)>,
    /// Error of listing the directory.
    unlisted: Option<String>,
}

impl ObjectSummary {
    /// Opens every object below `base`.
    pub(crate) fn take(base: &Base) -> Self {
        let mut summary = Self::default();
        let listed = match backcast_core::list_objects(base) {
            Ok(listed) => listed,
            Err(error) => {
                summary.unlisted = Some(error.to_string());
                return summary;
            }
        };
        for entry in listed.into_iter().filter_map(|info| Entry::open(base, info)) {
            summary.add(&entry);
        }
        summary
    }

    fn add(&mut self, Entry { info, state, content, .. }: &Entry) {
        let name = catalogue::shown_name(info);
        self.objects += 1;
        self.bytes = self.bytes.saturating_add(info.bytes);
        match (state, content) {
            (_, Content::Ring(stats)) => {
                self.pages.allocated = self.pages.allocated.saturating_add(stats.bytes_allocated);
                self.pages.huge = self.pages.huge.saturating_add(stats.bytes_huge);
                self.rings.push(RingExtent {
                    name,
                    lanes: stats.lanes.into(),
                    columns: stats.columns.len() as u64,
                });
            }
            (_, Content::Unopenable(obstacle, why)) => {
                let list = match obstacle {
                    Obstacle::Damaged => &mut self.damaged,
                    Obstacle::OtherVersion => &mut self.other_version,
                    Obstacle::Denied => &mut self.denied,
                    Obstacle::Unknown => &mut self.unknown,
                };
                list.push((name, why.clone()));
            }
            (ObjectState::Orphaned, _) if info.building => self.remnants.push((name, info.bytes)),
            (ObjectState::Orphaned, _) => self.orphans.push((name, info.bytes)),
            _ => {}
        }
    }
}

/// Reports orphaned and damaged objects, those of other versions, and those that cannot be opened.
pub(crate) fn stale(summary: &ObjectSummary) -> Finding {
    const CHECK: &str = "stale_objects";
    if let Some(why) = &summary.unlisted {
        let remedy = "see the checks `permissions` and `open_files`";
        return Finding::found(CHECK, why.clone(), remedy);
    }
    let left: Vec<&(String, u64)> = summary.orphans.iter().chain(&summary.remnants).collect();
    let wasted: u64 = left.iter().map(|(_, bytes)| bytes).sum();
    let mut found = Vec::new();
    let mut remedies = Vec::new();
    if !left.is_empty() {
        found.push(format!(
            "{} that no process holds take {}: {}",
            left.len(),
            bytes(wasted),
            names(left.iter().map(|(name, _)| name))
        ));
        remedies.push("`backcast gc`".to_owned());
    }
    if let Some((first, why)) = summary.damaged.first() {
        found.push(format!(
            "{} cannot be opened: {} ({why})",
            summary.damaged.len(),
            names(summary.damaged.iter().map(|(name, _)| name))
        ));
        remedies.push(format!("`backcast rm {first}` where it is not worth a repair"));
    }
    if let Some((_, why)) = summary.other_version.first() {
        found.push(format!(
            "{} of another version of Backcast: {} ({why})",
            summary.other_version.len(),
            names(summary.other_version.iter().map(|(name, _)| name))
        ));
        remedies.push("use the version that made them, which can save them".to_owned());
    }
    if let Some((_, why)) = summary.unknown.first() {
        found.push(format!(
            "the system could not open {}, which may be whole: {} ({why})",
            summary.unknown.len(),
            names(summary.unknown.iter().map(|(name, _)| name))
        ));
        remedies.push("remedy that error and look again".to_owned());
    }
    if let Some((_, why)) = summary.denied.first() {
        found.push(format!(
            "{} may not be opened by this user: {} ({why})",
            summary.denied.len(),
            names(summary.denied.iter().map(|(name, _)| name))
        ));
        remedies.push("have their owner give access, or look as their owner".to_owned());
    }
    let finding = if found.is_empty() {
        let (count, size) = (summary.objects, bytes(summary.bytes));
        let fine = format!("none of {count} rings and panels ({size}) is stale");
        Finding::ok(CHECK, fine)
    } else {
        Finding::found(CHECK, found.join("; "), remedies.join("; "))
    };
    let list = |left: &[(String, u64)]| -> Vec<String> {
        left.iter().map(|(name, _)| name.clone()).collect()
    };
    finding
        .with("objects", summary.objects)
        .with("objects_bytes", summary.bytes)
        .with("stale_bytes", wasted)
        .with("orphans", list(&summary.orphans))
        .with("remnants", list(&summary.remnants))
        .with("damaged", with_errors(&summary.damaged))
        .with("other_version", with_errors(&summary.other_version))
        .with("denied", with_errors(&summary.denied))
        .with("unknown", with_errors(&summary.unknown))
}

fn with_errors(objects: &[(String, String)]) -> Vec<serde_json::Value> {
    objects.iter().map(|(name, error)| json!({ "name": name, "error": error })).collect()
}

/// Joins the first few names and the number of the rest.
fn names<'a>(all: impl ExactSizeIterator<Item = &'a String>) -> String {
    const SHOWN: usize = 3;
    let more = all.len().saturating_sub(SHOWN);
    let shown: Vec<&str> = all.take(SHOWN).map(String::as_str).collect();
    let shown = shown.join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Status::{Finding as Found, Ok as Well};
    use super::*;

    #[test]
    fn leftovers_are_named_with_their_remedy() {
        let left = |names: &[&str]| -> Vec<(String, u64)> {
            names.iter().map(|name| ((*name).to_owned(), 1 << 20)).collect()
        };
        let fine = ObjectSummary { objects: 2, bytes: 3 << 20, ..ObjectSummary::default() };
        let orphans =
            ObjectSummary { orphans: left(&["a", "b", "c", "d", "e"]), ..ObjectSummary::default() };
        let remnant =
            ObjectSummary { remnants: left(&[".building-1"]), ..ObjectSummary::default() };
        let damaged = ObjectSummary {
            damaged: vec![("pong".into(), "it dates from before the last start".into())],
            ..ObjectSummary::default()
        };
        let both = ObjectSummary { orphans: left(&["a"]), ..damaged_copy(&damaged) };
        let denied = ObjectSummary {
            denied: vec![("pong".into(), "cannot open ring.lck: Permission denied".into())],
            ..ObjectSummary::default()
        };
        let foreign = ObjectSummary {
            other_version: vec![("pong".into(), "layout version 99".into())],
            ..ObjectSummary::default()
        };
        let unknown = ObjectSummary {
            unknown: vec![("pong".into(), "Input/output error".into())],
            ..ObjectSummary::default()
        };
        for summary in [&foreign, &unknown] {
            let finding = stale(summary);
            let text = format!("{} {:?}", finding.summary, finding.remedy);
            assert!(!text.contains("backcast rm") && !text.contains("damaged"), "{text}");
        }
        let unlisted =
            ObjectSummary { unlisted: Some("cannot list".into()), ..ObjectSummary::default() };
        for (summary, status, words) in [
            (fine, Well, &["3 MiB"][..]),
            (orphans, Found, &["5", "5 MiB", "a, b, c", "backcast gc"]),
            (remnant, Found, &[".building-1", "1 MiB", "backcast gc"]),
            (damaged, Found, &["pong", "backcast rm pong"]),
            (both, Found, &["backcast gc", "backcast rm pong"]),
            (denied, Found, &["1", "pong", "Permission denied"]),
            (foreign, Found, &["1", "pong", "99"]),
            (unknown, Found, &["1", "pong", "Input/output error"]),
            (unlisted, Found, &["cannot list", "permissions", "open_files"]),
        ] {
            let finding = stale(&summary);
            let text = format!("{} {:?}", finding.summary, finding.remedy);
            assert_eq!(finding.status, status, "{text}");
            for word in words {
                assert!(text.contains(word), "`{word}` is missing: {text}");
            }
        }
    }

    fn damaged_copy(summary: &ObjectSummary) -> ObjectSummary {
        ObjectSummary { damaged: summary.damaged.clone(), ..ObjectSummary::default() }
    }
}
