// Stub, see stub/README.md.
#pragma once
#include <cstdint>

namespace hardware_interface {
enum class return_type : std::uint8_t { OK = 0, ERROR = 1 };
}
