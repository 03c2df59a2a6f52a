#include "onbeat_system.hpp"

#include "hardware_interface/types/hardware_interface_type_values.hpp"
#include "pluginlib/class_list_macros.hpp"
#include "rclcpp/logging.hpp"

namespace onbeat {

using hardware_interface::CallbackReturn;
using hardware_interface::return_type;

static rclcpp::Logger logger() { return rclcpp::get_logger("OnbeatSystem"); }

OnbeatSystem::~OnbeatSystem() { onbeat_control_close(&bus_); }

CallbackReturn OnbeatSystem::on_init(const hardware_interface::HardwareInfo &info) {
    if (hardware_interface::SystemInterface::on_init(info) != CallbackReturn::SUCCESS) return CallbackReturn::ERROR;
    const auto bus = info.hardware_parameters.find("bus");
    if (bus != info.hardware_parameters.end()) bus_name_ = bus->second;

    for (const auto &described : info.joints) {
        for (const auto &command : described.command_interfaces) {
            if (command.name == hardware_interface::HW_IF_POSITION) continue;
            RCLCPP_ERROR(logger(), "joint \"%s\": command interface \"%s\" is not supported; use position", described.name.c_str(), command.name.c_str());
            return CallbackReturn::ERROR;
        }
        Joint joint;
        joint.name = described.name;
        joints_.push_back(joint);
    }
    return CallbackReturn::SUCCESS;
}

bool OnbeatSystem::find(Joint &joint) {
    joint.on_bus = onbeat_joint_find(&bus_, joint.name.c_str());
    if (joint.on_bus < 0) {
        RCLCPP_ERROR(logger(), "bus \"%s\" has no joint \"%s\" that follows goals", bus_name_.c_str(), joint.name.c_str());
        return false;
    }
    const auto device = static_cast<std::uint32_t>(bus_.joints[joint.on_bus].device);
    joint.has_velocity = onbeat_value_find_object(&bus_, device, 0x606C, 0, &joint.velocity_place) == ONBEAT_OK;
    return true;
}

CallbackReturn OnbeatSystem::on_configure(const rclcpp_lifecycle::State &) {
    const int result = onbeat_control_open(&bus_, bus_name_.c_str());
    if (result != ONBEAT_OK) {
        RCLCPP_ERROR(logger(), "bus \"%s\" cannot be opened: result %d of enum onbeat_result", bus_name_.c_str(), result);
        return CallbackReturn::ERROR;
    }

    inputs_.assign(bus_.input_bytes, 0);
    targets_.assign(bus_.joint_count, 0.0);
    which_.assign((bus_.joint_count + 63) / 64, 0);
    for (auto &joint : joints_) {
        if (find(joint)) continue;
        on_cleanup({});
        return CallbackReturn::ERROR;
    }
    return CallbackReturn::SUCCESS;
}

CallbackReturn OnbeatSystem::on_cleanup(const rclcpp_lifecycle::State &) {
    onbeat_control_close(&bus_);
    return CallbackReturn::SUCCESS;
}

// The joints are given up without taking leave: the robot stops safely, and the component can be configured again.
CallbackReturn OnbeatSystem::on_error(const rclcpp_lifecycle::State &previous) { return on_cleanup(previous); }

CallbackReturn OnbeatSystem::on_activate(const rclcpp_lifecycle::State &) {
    std::uint32_t other = 0;
    // Targets begin where the joints are, so that activation moves nothing.
    if (!read_joints()) return CallbackReturn::ERROR;
    for (auto &joint : joints_) joint.target = joint.position;

    const int result = onbeat_commander_claim(&bus_, &other);
    if (result == ONBEAT_OK) return CallbackReturn::SUCCESS;
    RCLCPP_ERROR(logger(), "the joints cannot be commanded: result %d, commander %u", result, static_cast<unsigned>(other));
    return CallbackReturn::ERROR;
}

CallbackReturn OnbeatSystem::on_deactivate(const rclcpp_lifecycle::State &) {
    onbeat_commander_release(&bus_);
    return CallbackReturn::SUCCESS;
}

std::vector<hardware_interface::StateInterface> OnbeatSystem::export_state_interfaces() {
    std::vector<hardware_interface::StateInterface> interfaces;
    for (auto &joint : joints_) {
        interfaces.emplace_back(joint.name, hardware_interface::HW_IF_POSITION, &joint.position);
        interfaces.emplace_back(joint.name, hardware_interface::HW_IF_VELOCITY, &joint.velocity);
    }
    return interfaces;
}

std::vector<hardware_interface::CommandInterface> OnbeatSystem::export_command_interfaces() {
    std::vector<hardware_interface::CommandInterface> interfaces;
    for (auto &joint : joints_) interfaces.emplace_back(joint.name, hardware_interface::HW_IF_POSITION, &joint.target);
    return interfaces;
}

// No system call while the bus runs, hence also no wait: the newest cycle is read.
bool OnbeatSystem::read_joints() {
    onbeat_cycle cycle;
    const int result = onbeat_control_read(&bus_, &cycle, inputs_.data(), nullptr);
    if (result != ONBEAT_OK) {
        RCLCPP_ERROR(logger(), "bus \"%s\": result %d of enum onbeat_result", bus_name_.c_str(), result);
        return false;
    }
    if (cycle.has_robot && cycle.rung == ONBEAT_SAFE_STOP) {
        RCLCPP_ERROR(logger(), "the robot is in a safe stop, reason %u of enum onbeat_stop", static_cast<unsigned>(cycle.stopped_by));
        return false;
    }
    if (onbeat_no_answer_for(&bus_) > 0) {
        RCLCPP_ERROR(logger(), "the devices of bus \"%s\" do not answer", bus_name_.c_str());
        return false;
    }

    for (auto &joint : joints_) {
        const auto place = static_cast<std::uint32_t>(joint.on_bus);
        if (onbeat_joint_position(&bus_, place, inputs_.data(), &joint.position) != ONBEAT_OK) return false;
        if (!joint.has_velocity) continue;
        const auto increments = static_cast<double>(onbeat_signed(&joint.velocity_place, inputs_.data()));
        joint.velocity = increments / bus_.joints[joint.on_bus].increments_per_rad;
    }
    return true;
}

return_type OnbeatSystem::read(const rclcpp::Time &, const rclcpp::Duration &) { return read_joints() ? return_type::OK : return_type::ERROR; }

return_type OnbeatSystem::write(const rclcpp::Time &, const rclcpp::Duration &) {
    // Humble and Jazzy write to an inactive component too.
    if (!bus_.goals) return return_type::OK;
    for (const auto &joint : joints_) {
        const auto place = static_cast<std::size_t>(joint.on_bus);
        targets_[place] = joint.target;
        which_[place / 64] |= std::uint64_t{1} << place % 64;
    }
    return onbeat_commander_give(&bus_, which_.data(), targets_.data(), nullptr) == ONBEAT_OK ? return_type::OK : return_type::ERROR;
}

}  // namespace onbeat

PLUGINLIB_EXPORT_CLASS(onbeat::OnbeatSystem, hardware_interface::SystemInterface)
