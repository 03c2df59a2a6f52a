// Stub, see stub/README.md.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

namespace hardware_interface {

struct InterfaceInfo {
    std::string name;
};

struct ComponentInfo {
    std::string name;
    std::vector<InterfaceInfo> command_interfaces;
    std::vector<InterfaceInfo> state_interfaces;
};

struct HardwareInfo {
    std::string name;
    std::unordered_map<std::string, std::string> hardware_parameters;
    std::vector<ComponentInfo> joints;
};

}  // namespace hardware_interface
