// Stub, see stub/README.md.
#pragma once

namespace rclcpp {
class Time {};
}  // namespace rclcpp
