//! Timing wheel: finds the agents that are due without a scan of all agents.

use crate::clone_in_place::clone_in_place;

/// Slots of the wheel. An agent that waits longer stays in its slot for several rounds.
const SLOTS: usize = 64;
const NIL: u16 = u16::MAX;

/// Chains of agents by the tick of their next action, modulo the slots.
#[derive(Debug)]
pub(crate) struct Wheel {
    heads: [u16; SLOTS],
    next: Vec<u16>,
    wake: Vec<u64>,
}

clone_in_place! {
    Wheel { heads, next, wake }
}

impl Wheel {
    pub(crate) fn new(agents: usize) -> Self {
        Self { heads: [NIL; SLOTS], next: vec![NIL; agents], wake: vec![u64::MAX; agents] }
    }

    pub(crate) fn clear(&mut self) {
        self.heads = [NIL; SLOTS];
        self.wake.fill(u64::MAX);
    }

    #[inline]
    pub(crate) fn schedule(&mut self, agent: u16, wake: u64) {
        let slot = wake as usize % SLOTS;
        self.wake[usize::from(agent)] = wake;
        self.next[usize::from(agent)] = self.heads[slot];
        self.heads[slot] = agent;
    }

    /// Removes every agent due at `now`, and calls `due` with it.
    #[inline]
    pub(crate) fn expire(&mut self, now: u64, mut due: impl FnMut(u16)) {
        let slot = now as usize % SLOTS;
        let mut at = std::mem::replace(&mut self.heads[slot], NIL);
        while at != NIL {
            let next = self.next[usize::from(at)];
            if self.wake[usize::from(at)] <= now {
                due(at);
            } else {
                self.next[usize::from(at)] = self.heads[slot];
                self.heads[slot] = at;
            }
            at = next;
        }
    }

    /// Loads one number of each cache line, which brings the lines into the caches. The result has
    /// no meaning.
    pub(crate) fn read_ahead(&self) -> u64 {
        let next = self.next.iter().step_by(64 / size_of::<u16>()).fold(0, |sum, next| sum ^ next);
        let wake = self.wake.iter().step_by(64 / size_of::<u64>());
        wake.fold(u64::from(next), |sum, wake| sum ^ wake)
    }

    pub(crate) fn wake(&self, agent: u16) -> u64 {
        self.wake[usize::from(agent)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_agent_expires_at_its_tick_and_no_other() {
        let mut wheel = Wheel::new(50);
        let mut expected = [0_u64; 50];
        for agent in 0..50_u16 {
            expected[usize::from(agent)] = 1 + u64::from(agent) * 7;
            wheel.schedule(agent, expected[usize::from(agent)]);
        }
        let mut seen = 0;
        for now in 1..2_000 {
            let mut due = Vec::new();
            wheel.expire(now, |agent| due.push(agent));
            for agent in due {
                seen += 1;
                assert_eq!(expected[usize::from(agent)], now);
                expected[usize::from(agent)] = now + 1 + u64::from(agent) * 13;
                wheel.schedule(agent, expected[usize::from(agent)]);
            }
        }
        assert!(seen > 500);
    }
}
