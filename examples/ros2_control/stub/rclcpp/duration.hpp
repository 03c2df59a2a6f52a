// Stub, see stub/README.md.
#pragma once

namespace rclcpp {
class Duration {};
}  // namespace rclcpp
