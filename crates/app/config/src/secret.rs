//! Keeps values of variables out of messages.

/// How many consecutive characters count as part of a secret.
const PART: usize = 4;

/// Whether `message` contains one of `secrets` or part of one, ignoring case.
pub fn leaks(message: &str, secrets: &[&str]) -> bool {
    let message = message.to_lowercase();
    secrets.iter().any(|secret| {
        let secret: Vec<char> = secret.to_lowercase().chars().collect();
        let size = secret.len().clamp(1, PART);
        secret.windows(size).any(|part| message.contains(&part.iter().collect::<String>()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole secret, a part of it and other letter cases are found; unrelated texts are not.
    #[test]
    fn parts_count() {
        assert!(leaks("bad value hunter2", &["hunter2"]));
        assert!(leaks("unclosed class at 'NTER'", &["hunter2"]));
        assert!(leaks("x1 is wrong", &["x1"]));
        assert!(!leaks("not a number", &["hunter2", ""]));
    }
}
