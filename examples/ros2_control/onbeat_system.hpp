// A ros2_control hardware component for a robot that onbeat runs: joints of `onbeat robot run FILE --trajectory commander --name NAME`.
//
// onbeat keeps the cycle, the drives and the safe stop; controllers of ros2_control give target positions at their own rate. If they stop giving
// them, the robot holds and then stops safely (docs/robot.md).
#ifndef ONBEAT_SYSTEM_HPP
#define ONBEAT_SYSTEM_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "hardware_interface/handle.hpp"
#include "hardware_interface/hardware_info.hpp"
#include "hardware_interface/system_interface.hpp"
#include "hardware_interface/types/hardware_interface_return_values.hpp"
#include "rclcpp/duration.hpp"
#include "rclcpp/time.hpp"
#include "rclcpp_lifecycle/state.hpp"

#include "onbeat_control.h"

namespace onbeat {

// State interfaces of each joint: position in rad, velocity in rad/s. Command interface: position in rad.
// Hardware parameter `bus`: the name of the robot's bus, "onbeat" unless given. Joints have the names of the drives.
class OnbeatSystem : public hardware_interface::SystemInterface {
public:
    OnbeatSystem() = default;
    ~OnbeatSystem() override;
    OnbeatSystem(const OnbeatSystem &) = delete;
    OnbeatSystem &operator=(const OnbeatSystem &) = delete;

    hardware_interface::CallbackReturn on_init(const hardware_interface::HardwareInfo &info) override;
    hardware_interface::CallbackReturn on_configure(const rclcpp_lifecycle::State &previous) override;
    hardware_interface::CallbackReturn on_cleanup(const rclcpp_lifecycle::State &previous) override;
    hardware_interface::CallbackReturn on_activate(const rclcpp_lifecycle::State &previous) override;
    hardware_interface::CallbackReturn on_deactivate(const rclcpp_lifecycle::State &previous) override;
    hardware_interface::CallbackReturn on_error(const rclcpp_lifecycle::State &previous) override;
    std::vector<hardware_interface::StateInterface> export_state_interfaces() override;
    std::vector<hardware_interface::CommandInterface> export_command_interfaces() override;
    hardware_interface::return_type read(const rclcpp::Time &time, const rclcpp::Duration &period) override;
    hardware_interface::return_type write(const rclcpp::Time &time, const rclcpp::Duration &period) override;

private:
    struct Joint {
        std::string name;
        int on_bus = -1;
        double position = 0.0;
        double velocity = 0.0;
        double target = 0.0;
        onbeat_place velocity_place = {};
        bool has_velocity = false;
    };

    bool find(Joint &joint);
    bool read_joints();

    std::string bus_name_ = "onbeat";
    onbeat_control bus_ = {};
    std::vector<Joint> joints_;
    std::vector<std::uint8_t> inputs_;
    std::vector<double> targets_;
    std::vector<std::uint64_t> which_;
};

}  // namespace onbeat

#endif
