//! Why a goal is not followed.

/// Why a goal is not followed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GoalFailure {
    #[error("\"{0}\" is not a goal; write JOINT=RAD, such as \"left knee=0.3\"")]
    NoGoal(String),
    #[error("joint \"{0}\" has two goals; write one")]
    TwoGoals(String),
    #[error(
        "`{0}` is not an address to listen on; write tcp://ADDRESS:PORT with a port of 1 to 65534, such as tcp://0.0.0.0:7791"
    )]
    Address(String),
    #[error("the robot refused the goal: it is outside the travel of a joint")]
    Refused,
    #[error(
        "{name} is in a safe stop: {why}; once the cause is gone, `kill -USR1 {pid}` resets it"
    )]
    SafelyStopped { name: String, why: String, pid: u32 },
    #[error("{why}; gave up after {within_s} s")]
    NotSeen { why: String, within_s: u64 },
    #[error("{0}")]
    WithoutPower(String),
}
