// Stub, see stub/README.md.
#pragma once
#include <vector>

#include "hardware_interface/handle.hpp"
#include "hardware_interface/hardware_info.hpp"
#include "hardware_interface/types/hardware_interface_return_values.hpp"
#include "rclcpp/duration.hpp"
#include "rclcpp/time.hpp"
#include "rclcpp_lifecycle/state.hpp"

namespace hardware_interface {

enum class CallbackReturn { SUCCESS, FAILURE, ERROR };

class SystemInterface {
public:
    virtual ~SystemInterface() = default;
    virtual CallbackReturn on_init(const HardwareInfo &info) {
        info_ = info;
        return CallbackReturn::SUCCESS;
    }
    virtual CallbackReturn on_configure(const rclcpp_lifecycle::State &) { return CallbackReturn::SUCCESS; }
    virtual CallbackReturn on_cleanup(const rclcpp_lifecycle::State &) { return CallbackReturn::SUCCESS; }
    virtual CallbackReturn on_activate(const rclcpp_lifecycle::State &) { return CallbackReturn::SUCCESS; }
    virtual CallbackReturn on_deactivate(const rclcpp_lifecycle::State &) { return CallbackReturn::SUCCESS; }
    virtual CallbackReturn on_error(const rclcpp_lifecycle::State &) { return CallbackReturn::FAILURE; }
    virtual std::vector<StateInterface> export_state_interfaces() = 0;
    virtual std::vector<CommandInterface> export_command_interfaces() = 0;
    virtual return_type read(const rclcpp::Time &time, const rclcpp::Duration &period) = 0;
    virtual return_type write(const rclcpp::Time &time, const rclcpp::Duration &period) = 0;

protected:
    HardwareInfo info_;
};

}  // namespace hardware_interface
