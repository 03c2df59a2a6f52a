//! A plan as nodes and links, for programs that build it; and the plan of a run that is measured.

use super::file::{NetPlanError, Network, Send, Traffic};
use super::topology::{NetworkTopology, PlannedNode};

/// Cycles that a prediction for a run simulates.
const PREDICTED_CYCLES: u64 = 100;

impl Network {
    /// Returns the nodes of the plan, the controller first.
    ///
    /// ```
    /// use onbeat_net::plan::{Network, PlannedRole};
    ///
    /// let plan = "[[devices]]\nname = \"board\"\ncount = 2\nlink = \"100M\"\n";
    /// let nodes = Network::parse(plan)?.nodes()?;
    /// assert_eq!(nodes[0].role, PlannedRole::Controller);
    /// assert_eq!(nodes[2].name, "board-2");
    /// assert_eq!(nodes[2].up.map(|link| (link.to, link.bits_per_s)), Some((0, 100_000_000)));
    /// # Ok::<(), onbeat_net::plan::NetPlanError>(())
    /// ```
    ///
    /// # Errors
    /// [`NetPlanError`], which a plan that was read does not have.
    pub fn nodes(&self) -> Result<Vec<PlannedNode>, NetPlanError> {
        Ok(NetworkTopology::from_network(self)?.nodes)
    }

    /// Returns the same network with the traffic of a run of round trips: one packet for each device
    /// per period, answered with as many bytes, by the run's version of IP.
    ///
    /// # Errors
    /// [`NetPlanError`]: at that period the plan has too much background traffic, or the payload
    /// does not fit a frame.
    pub fn with_round_trips(
        mut self,
        payload: u64,
        ipv6: bool,
        period_ns: u64,
    ) -> Result<Self, NetPlanError> {
        self.traffic = Traffic {
            payload,
            answer: None,
            ipv6,
            send: Send::Each,
            rate_hz: 1e9 / period_ns.max(1) as f64,
            cycles: self.traffic.cycles.min(PREDICTED_CYCLES),
            ..self.traffic
        };
        self.check()?;
        Ok(self)
    }

    /// Returns the number of background streams of the plan.
    #[must_use]
    pub fn background_streams(&self) -> usize {
        self.background.len()
    }

    /// Returns the least time between two answers that the controller's program takes, in
    /// microseconds.
    #[must_use]
    pub fn per_answer_us(&self) -> f64 {
        self.controller.per_answer_us
    }

    /// Returns the payload of a command, in bytes.
    #[must_use]
    pub fn payload(&self) -> u64 {
        self.traffic.payload
    }

    /// Returns whether packets are larger than those of plain IPv4: by IPv6 or a VLAN tag.
    #[must_use]
    pub fn has_larger_headers(&self) -> bool {
        self.traffic.ipv6 || self.traffic.vlan
    }
}
