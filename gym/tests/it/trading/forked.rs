//! A forked child steps an environment whose threads stayed in its parent.
#![expect(unsafe_code, reason = "the standard library cannot fork")]

use backcast_gym::{AutoresetMode, ResetSeed, TradingResetOptions, TradingVectorEnv};

use super::short;

fn step(envs: &mut TradingVectorEnv) -> u64 {
    let mut observations = vec![0.0; envs.num_envs() * envs.observation_size()];
    for _ in 0..5 {
        envs.step_into(&[2_u8; 16], &mut observations).unwrap();
    }
    (0..16).fold(0, |hash, env| hash ^ envs.market(env).state_hash().rotate_left(env as u32))
}

#[test]
fn a_forked_child_steps_on_threads_of_its_own() {
    let mut envs = TradingVectorEnv::new(short(), 16, AutoresetMode::SameStep, 3).unwrap();
    let mut observations = vec![0.0; 16 * envs.observation_size()];
    let options = TradingResetOptions::default();
    envs.reset_into(ResetSeed::One(1), None, options, &mut observations).unwrap();
    step(&mut envs);
    let (mut pipe, mut status) = ([0; 2], 0_i32);
    // SAFETY: `pipe` has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // SAFETY: the child calls nothing but the environment, which starts threads of its own, and
    // system calls; it ends by `_exit`, so that no destructor of the parent runs in it.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: `alarm` takes no pointer; it ends a child that waits for threads it does not
        // have.
        unsafe { libc::alarm(120) };
        let hash = step(&mut envs).to_ne_bytes();
        // SAFETY: the buffer has eight bytes; `_exit` takes no pointer.
        unsafe {
            libc::write(pipe[1], hash.as_ptr().cast(), 8);
            libc::_exit(0);
        }
    }
    assert!(child > 0);
    let mut hash = [0_u8; 8];
    // SAFETY: the descriptors are open, the buffer has eight bytes, and the child is this
    // process's.
    unsafe {
        libc::close(pipe[1]);
        assert_eq!(libc::read(pipe[0], hash.as_mut_ptr().cast(), 8), 8, "the child died");
        libc::close(pipe[0]);
        assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
    }
    assert_eq!(status, 0, "status of the child");
    assert_eq!(u64::from_ne_bytes(hash), step(&mut envs), "parent and child step alike");
}
