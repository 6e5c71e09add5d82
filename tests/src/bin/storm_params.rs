//! The victims of the storm of parameters, until they are killed. `storm_params DIR NAME ROLE
//! LIFE`: ROLE is `publish`, `pull` or `view`. A reader that finds a torn or an older version ends.

use std::env;
use std::error::Error;

use backcast_core::{Base, Params, ParamsError};
use backcast_tests::versions::{WORDS, are_whole, fill, is_whole};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().collect();
    let [_, dir, name, role, life] = args.as_slice() else {
        return Err("usage: storm_params DIR NAME ROLE LIFE".into());
    };
    let life: u64 = life.parse()?;
    let mut params = Params::attach_in(&Base::at(dir), name)?;
    let mut arrays = params.arrays();
    let mut last = 0;
    // An orphan is given another parent.
    let test = rustix::process::getppid();
    while rustix::process::getppid() == test {
        match role.as_str() {
            "publish" => {
                let version = params.version() + 1;
                fill(&mut arrays, version, life)?;
                match params.publish(&arrays, Some(version)) {
                    // A predecessor that was killed may not be reaped yet.
                    Err(ParamsError::OtherPublisher { .. } | ParamsError::AllPinned { .. }) => {}
                    published => drop(published?),
                }
            }
            "pull" => {
                let Some(version) = params.pull(&mut arrays)? else { continue };
                if version <= last || !are_whole(&arrays, version)? {
                    return Err(format!("version {version} after {last} is torn or old").into());
                }
                last = version;
            }
            "view" => {
                let view = match params.view() {
                    Err(ParamsError::Nothing { .. }) => continue,
                    view => view?,
                };
                let [mut head, mut check] = [vec![0; 16], vec![0; 8]];
                let mut words = vec![0_u64; WORDS];
                // Twice: what is pinned does not change.
                for _ in 0..2 {
                    let copied = view.copy(0, &mut head)
                        && view.copy(1, bytemuck::cast_slice_mut(&mut words))
                        && view.copy(2, &mut check);
                    let head: Vec<u64> = bytemuck::pod_collect_to_vec(&head);
                    let check: Vec<u64> = bytemuck::pod_collect_to_vec(&check);
                    if !copied || !is_whole(&head, &words, &check, view.version()) {
                        return Err(format!("the view of {} has changed", view.version()).into());
                    }
                }
            }
            other => return Err(format!("there is no role {other}").into()),
        }
    }
    Err("the test that started this process is gone".into())
}
