//! Snapshots: saved, loaded, damaged, cut short and crowded out.

mod arrow_files;
mod beside_writers;
mod claims;
mod damage;
mod following;
mod following_power;
mod format_doc;
mod full_disk;
mod impossible;
mod learned;
mod life;
mod model;
mod params;
mod power;
mod power_loss;
mod priorities;
mod progress;
mod refusals;
mod rings;
