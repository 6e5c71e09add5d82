//! Puts the remedies of the core into Python's words.
//!
//! Messages of the core name options and their words, `exist "replace"`, which Rust programs, the
//! command line and Python share. Python shows them as the keywords that its caller types.
//!
//! A message says what is wrong, then `; `, then the remedy. Paths and other words of the caller
//! stand before the `; `, or in quotes, and stay as they are.

/// Options whose value follows in a message as a quoted word or in braces: `boundary "mask"`
/// becomes `boundary="mask"`.
const KEYWORDS: [&str; 9] = [
    "autoreset_mode",
    "boundary",
    "columns",
    "exist",
    "lane_policy",
    "no_learner",
    "no_writer",
    "on_unlinked",
    "unknown",
];

/// Options whose value follows in a message as a number: `history 80` becomes `history=80`. Applies
/// only to messages without words of the caller.
const NUMBERS: [&str; 4] = ["history", "future", "n_step", "gamma"];

/// Beginnings of messages that have no words of the caller outside of quotes. `#` is a number.
const WITHOUT_CALLERS_WORDS: [&str; 20] = [
    "`final_obs` was given, but in autoreset_mode ",
    "`final_obs` is missing, which autoreset_mode ",
    "`next_obs` and `final_obs` are missing, of which autoreset_mode ",
    "a writer of # lanes needs to know how its environments reset",
    "asked for # lanes, the ring has #",
    "columns `",
    "history #",
    "n_step #",
    "gamma #",
    "no window lies on the stride",
    "no window of history #",
    "sequences do not go with ",
    "no transition has its history of #",
    "index[#] = #",
    "lane # of a writer in autoreset_mode ",
    "lane # ended, but ",
    "the discounts of n-step returns come from the column `discount`",
    "the column `discount` discounts n-step returns only",
    "the limits in `ring.lim` are damaged",
    "the state is not a sampler's: it is no JSON object",
];

/// Remedies in the words of the core, and as Python has them. `#` is a number.
const REMEDIES: [(&str, &str); 42] = [
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
        "call `sample(batch_size)` without `out`, or give \
         form=bc.WholeEpisodes(\"padded\", max_length=...)",
    ),
    ("or leave the form out", "or leave form out"),
    (
        "choose uniform, priority, fifo, lifo, epoch or consume",
        "give select=\"fifo\", \"lifo\", bc.Priority(), bc.Epoch() or bc.Consume()",
    ),
    (
        "draw sequences as long as the longest episode",
        "give form=bc.Sequence(length) as long as the longest episode",
    ),
    ("make another one without the form", "make another one without form"),
    (
        "; choose consume, or draw sequences",
        "; give select=bc.Consume(), or form=bc.Sequence(length)",
    ),
    ("draw them with `sample`, without `out`", "call sample(None) or sample(n), without `out`"),
    ("give batch_size, or choose consume", "give batch_size, or select=bc.Consume()"),
    ("0.8 for a k of 4", "0.8 for k=4"),
    ("leave the column out with `columns`", "leave the column out with columns=[...]"),
    ("such as `value` of f4", "such as learned={\"value\": \"f4\"}"),
    ("wait for it with `wait`", "wait for it with wait(1)"),
    (
        "make it with priorities",
        "make it with select=bc.Priority(), such as buf.sampler(select=bc.Priority(alpha=0.6))",
    ),
    ("such as absolute TD errors", "such as abs(td)"),
    (
        "use a table whose alpha can change",
        "use a table of bc.Priority(alpha=\"table\"), or of alpha=(first, last, batches)",
    ),
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
    ("create it with # lanes or more", "create it with lanes=# or more"),
    ("load it with the separator ", "load it with separator="),
    ("; reset the environment", "; call reset()"),
    ("with an indicator_lag of 0", "with indicator_lag=0"),
];

/// Returns a message of the core in Python's words.
///
/// Rewords the remedy, and the whole message if it has no words of the caller. Quoted text stays.
pub(crate) fn in_python(message: &str) -> String {
    let is_ours = WITHOUT_CALLERS_WORDS.iter().any(|start| length_like(message, start).is_some());
    let start = if is_ours { 0 } else { message.find("; ").unwrap_or(message.len()) };
    let (said, mut rest) = message.split_at(start);
    let mut text = said.to_owned();
    let mut quote = None;
    while let Some(next) = rest.chars().next() {
        let is_inside_word = is_of_word(next) && text.ends_with(is_of_word);
        let found = if quote.is_none() && !is_inside_word { reworded(rest, is_ours) } else { None };
        if let Some((python, length)) = found {
            text += &python;
            rest = &rest[length..];
            continue;
        }
        match quote {
            Some(open) if open == next => quote = None,
            None if next == '`' || next == '"' => quote = Some(next),
            _ => {}
        }
        text.push(next);
        rest = &rest[next.len_utf8()..];
    }
    text
}

/// Returns Python's words for the beginning of a text, and how many bytes of it they replace.
/// Returns `None` if it stays as it is.
fn reworded(text: &str, with_numbers: bool) -> Option<(String, usize)> {
    for (core, python) in REMEDIES {
        if let Some(length) = length_like(text, core) {
            let number = core.find('#').map_or("", |at| digits(&text[at..]));
            return Some((python.replace('#', number), length));
        }
    }
    let option = |name: &&&str, is_value: fn(char) -> bool| {
        text.strip_prefix(**name)
            .and_then(|after| after.strip_prefix(' '))
            .is_some_and(|value| value.starts_with(is_value))
    };
    let keyword = KEYWORDS.iter().find(|name| option(name, |first| first == '"' || first == '{'));
    let number = || NUMBERS.iter().find(|name| with_numbers && option(name, is_digit));
    let name = keyword.or_else(number)?;
    Some((format!("{name}="), name.len() + 1))
}

/// Returns the length of the beginning of a text that matches a pattern, in which `#` stands for a
/// number. Returns `None` without a match.
fn length_like(text: &str, pattern: &str) -> Option<usize> {
    let mut rest = text;
    for (at, part) in pattern.split('#').enumerate() {
        if at > 0 {
            let number = digits(rest);
            if number.is_empty() {
                return None;
            }
            rest = &rest[number.len()..];
        }
        rest = rest.strip_prefix(part)?;
    }
    Some(text.len() - rest.len())
}

/// Returns the digits and minus signs that a text begins with.
fn digits(text: &str) -> &str {
    let end = text.find(|next: char| next != '-' && !is_digit(next));
    &text[..end.unwrap_or(text.len())]
}

fn is_of_word(one: char) -> bool {
    one == '_' || one.is_alphanumeric()
}

fn is_digit(one: char) -> bool {
    one.is_ascii_digit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_with_a_value_become_keywords_and_other_words_stay() {
        for (core, python) in [
            (
                "taken; use exist \"replace\" to start over",
                "taken; use exist=\"replace\" to start over",
            ),
            (
                "no number; load with columns {\"sector\": \"\"}",
                "no number; load with columns={\"sector\": \"\"}",
            ),
            ("leased; the lane_policy is \"fail\"", "leased; the lane_policy is \"fail\""),
            ("too large; give 0 to 1, 0.8 for a k of 4", "too large; give 0 to 1, 0.8 for k=4"),
            ("one cell; load it with the separator ';'", "one cell; load it with separator=';'"),
            (
                "asked for 3 lanes, the ring has 2; create it with 3 lanes or more",
                "asked for 3 lanes, the ring has 2; create it with lanes=3 or more",
            ),
            ("the episode has ended; reset the environment", "the episode has ended; call reset()"),
            (
                "has none before it; show those of the day itself with an indicator_lag of 0",
                "has none before it; show those of the day itself with indicator_lag=0",
            ),
            (
                "the episode of environment 1 has ended; with autoreset_mode \"disabled\" reset it",
                "the episode of environment 1 has ended; with autoreset_mode=\"disabled\" reset it",
            ),
            ("history 80, future 2 and n_step 1 take", "history=80, future=2 and n_step=1 take"),
            (
                "n_step 3; a history of 80 in future no more",
                "n_step=3; a history of 80 in future no more",
            ),
            ("n_step 3 and my_history 80", "n_step=3 and my_history 80"),
            (
                "index[-1] = 7 (lane 0, row 7) is out: boundary \"clamp\" repeats; gather others",
                "index[-1] = 7 (lane 0, row 7) is out: boundary=\"clamp\" repeats; gather others",
            ),
            (
                "lane 12 of a writer in autoreset_mode \"x\": so. Likely. The statistics of \
                 the ring count such resets",
                "lane 12 of a writer in autoreset_mode=\"x\": so. Likely; writer(env=env) takes \
                 it from the environment. stats() counts suspect_resets",
            ),
        ] {
            assert_eq!(in_python(core), python);
        }
    }

    #[test]
    fn words_of_the_caller_stay() {
        for message in [
            "cannot read /d/stride 4/x.csv: no such file; give another path",
            "cannot read stride 4.csv",
            "no ring in /tmp/exist \"replace\"/use a prefetch of 0; create one",
            "nothing in /tmp/a; history 80/backcast-0; create one",
            "column name `history 80` is refused; use letters",
            "refused; column `use a prefetch of 0` and \"exist \"",
            "columns `history 80` and `gamma 1` collide; rename one",
        ] {
            assert_eq!(in_python(message), message);
        }
    }
}
