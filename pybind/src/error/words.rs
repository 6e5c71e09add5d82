//! Puts the remedies of the core into Python's words.
//!
//! Messages of the core name options and their words, `exist "replace"`, which Rust programs, the
//! command line and Python share. Python shows them as the keywords that its caller types.

/// Options of which a message gives the value: `boundary "mask"` becomes `boundary="mask"`.
const KEYWORDS: [&str; 9] = [
    "autoreset_mode",
    "boundary",
    "columns",
    "exist",
    "lane_policy",
    "no_learner",
    "no_writer",
    "on_unlinked",
    "separator",
];

/// Options of which a message gives a number: `history 80` becomes `history=80`.
const NUMBERS: [&str; 5] = ["history", "future", "n_step", "gamma", "stride"];

/// Remedies in the words of the core, and as Python has them.
const REMEDIES: [(&str, &str); 30] = [
    ("give `final_obs`, since", "give final_obs=infos[\"final_obs\"], since"),
    (
        "give `next_obs`, the observation that the step led to,",
        "give next_obs=, what env.step returned,",
    ),
    ("the observation that the step returned", "the observation that env.step returned"),
    ("and call `restart` after", "and call restart() after"),
    (
        ". The statistics of the ring count such resets",
        "; writer(env=env) takes it from the environment. stats() counts suspect_resets",
    ),
    (
        "or next_obs holds the final observation, as in SB3)",
        "or next_obs holds the final observation, as in SB3); writer(env=env) takes both from a \
         Gymnasium environment",
    ),
    ("copy rows with `rows`, or create", "copy rows with rows(), or create"),
    ("drop them too with `older`", "drop them too with older=True"),
    ("drop every row so far with `clear`", "drop every row so far with clear()"),
    (
        "draw them with `sample` into a new batch, or draw padded ones with a `max_length`",
        "call `sample(batch_size)` without `out`, or give episodes=\"padded\" with max_length",
    ),
    ("0.8 for a k of 4", "0.8 for k=4"),
    ("leave the column out with `columns`", "leave the column out with columns=[...]"),
    ("such as `value` of f4", "such as learned={\"value\": \"f4\"}"),
    ("wait for it with `wait`", "wait for it with wait(1)"),
    ("make it with priorities", "make it with priority=, such as buf.sampler(priority=0.6)"),
    ("such as absolute TD errors", "such as abs(td)"),
    ("create the ring with a column `reward` of f4", "create the ring with \"reward\": \"f4\""),
    ("create the ring with a column `discount` of f4", "create the ring with \"discount\": \"f4\""),
    (
        "the discounts of n-step returns come from the column `discount`",
        "gamma=\"discount\" discounts by the column `discount`",
    ),
    (
        "the column `discount` discounts n-step returns only",
        "gamma=\"discount\" discounts n-step returns only",
    ),
    ("use a prefetch of 0", "use prefetch=0"),
    ("an array or a group of arrays", "an array or a dict of arrays"),
    ("between the keys of nested groups", "between the keys of nested dicts"),
    ("create it with a rate limiter, which", "create it with limiter=RateLimiter(...), which"),
    (
        "or change it for all processes",
        "or change it for all processes with buf.limiter.set(RateLimiter(...))",
    ),
    (
        "or set one for all processes",
        "or set one for all processes with buf.limiter.set(RateLimiter(...))",
    ),
    (
        "are damaged; set them again",
        "are damaged; set them again with buf.limiter.set(RateLimiter(...))",
    ),
    ("or switch the limiter off", "or switch the limiter off with buf.limiter.disable()"),
    ("pass the state that a sampler returned", "pass the return value of a sampler's `state()`"),
    ("it is no JSON object", "it is no dict"),
];

/// Returns a message of the core in Python's words.
pub(crate) fn in_python(message: &str) -> String {
    let mut text = message.to_owned();
    for (core, python) in REMEDIES {
        if text.contains(core) {
            text = text.replace(core, python);
        }
    }
    for keyword in KEYWORDS {
        for value in ["\"", "{"] {
            text = text.replace(&format!("{keyword} {value}"), &format!("{keyword}={value}"));
        }
    }
    for name in NUMBERS {
        text = with_number(&text, name);
    }
    text
}

/// Puts `=` between the name of an option and the number after it.
fn with_number(text: &str, name: &str) -> String {
    let spaced = format!("{name} ");
    let mut parts = text.split(&spaced);
    let mut joined = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_word = !joined.ends_with(|before: char| before == '_' || before.is_alphanumeric());
        let is_number = part.starts_with(|after: char| after.is_ascii_digit());
        joined += name;
        joined += if is_word && is_number { "=" } else { " " };
        joined += part;
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_with_a_value_become_keywords_and_other_words_stay() {
        for (core, python) in [
            ("use exist \"replace\" to start over", "use exist=\"replace\" to start over"),
            ("load with columns {\"sector\": \"\"}", "load with columns={\"sector\": \"\"}"),
            ("the lane_policy is \"fail\"", "the lane_policy is \"fail\""),
            ("give 0 to 1, 0.8 for a k of 4", "give 0 to 1, 0.8 for k=4"),
            ("history 80, future 2 and n_step 1 take", "history=80, future=2 and n_step=1 take"),
            ("a history of 80, and in future no more", "a history of 80, and in future no more"),
            ("my_history 80 and the future is", "my_history 80 and the future is"),
        ] {
            assert_eq!(in_python(core), python);
        }
    }
}
