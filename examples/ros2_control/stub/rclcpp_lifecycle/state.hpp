// Stub, see stub/README.md.
#pragma once

namespace rclcpp_lifecycle {
class State {};
}  // namespace rclcpp_lifecycle
