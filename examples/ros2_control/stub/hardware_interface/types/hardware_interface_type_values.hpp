// Stub, see stub/README.md.
#pragma once

namespace hardware_interface {
constexpr char HW_IF_POSITION[] = "position";
constexpr char HW_IF_VELOCITY[] = "velocity";
}  // namespace hardware_interface
