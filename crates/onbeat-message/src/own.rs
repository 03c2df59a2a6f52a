//! The messages of onbeat.

use super::type_set::TypeSet;

/// Name of [`CYCLE_TEXT`]'s type: one cycle of a bus.
pub const CYCLE: &str = "onbeat_msgs/msg/Cycle";
/// Its definition.
pub const CYCLE_TEXT: &str = include_str!("../msg/Cycle.msg");

/// Returns the messages of onbeat.
#[must_use]
pub fn types() -> TypeSet {
    let mut types = TypeSet::default();
    // A test parses them.
    let _ = types.add(CYCLE, CYCLE_TEXT);
    types
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_messages_are_valid_and_have_comments() {
        let types = types();
        assert_eq!(types.names().collect::<Vec<_>>(), [CYCLE]);
        assert!(types.used(CYCLE).is_ok());
    }
}
