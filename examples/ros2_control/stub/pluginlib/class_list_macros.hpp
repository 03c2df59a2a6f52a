// Stub, see stub/README.md.
#pragma once
#include <type_traits>
#define PLUGINLIB_EXPORT_CLASS(type, base) static_assert(std::is_base_of<base, type>::value, "a plugin of this base");
