// Takes the place of the controller manager in tests: loads the component, and tilts a joint by ±0.15 rad at 100 Hz.
// usage: run_component BUS SECONDS [JOINT]
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "../onbeat_system.hpp"

using hardware_interface::CallbackReturn;
using hardware_interface::return_type;

static int fail(const char *what) {
    std::fprintf(stderr, "%s\n", what);
    return 2;
}

int main(int count, char **words) {
    if (count < 3) return fail("usage: run_component BUS SECONDS [JOINT]");
    hardware_interface::HardwareInfo info;
    info.hardware_parameters["bus"] = words[1];
    hardware_interface::ComponentInfo joint;
    joint.name = count > 3 ? words[3] : "left ankle pitch";
    joint.command_interfaces.push_back({"position"});
    joint.state_interfaces = {{"position"}, {"velocity"}};
    info.joints.push_back(joint);

    { onbeat::OnbeatSystem never_configured; }
    if (fcntl(0, F_GETFD) < 0) return fail("standard input is closed by a component that opened nothing");
    onbeat::OnbeatSystem component;
    if (component.on_init(info) != CallbackReturn::SUCCESS) return fail("on_init");
    if (component.on_configure({}) != CallbackReturn::SUCCESS) return fail("on_configure");
    auto states = component.export_state_interfaces();
    auto commands = component.export_command_interfaces();
    if (states.size() != 2 || commands.size() != 1 || commands[0].get_name() != joint.name + "/position") return fail("interfaces");
    if (component.write({}, {}) != return_type::OK) return fail("write before activation");
    if (component.on_activate({}) != CallbackReturn::SUCCESS) return fail("on_activate");

    const double began_at = commands[0].get_value();
    if (began_at != states[0].get_value()) return fail("activation would move the joint");
    const auto began = std::chrono::steady_clock::now();
    auto next = began;
    for (double passed = 0.0; passed < std::atof(words[2]);) {
        if (component.read({}, {}) != return_type::OK) return fail("read");
        commands[0].set_value(began_at + 0.15 * std::sin(2.0 * passed));
        if (component.write({}, {}) != return_type::OK) return fail("write");
        next += std::chrono::milliseconds(10);
        std::this_thread::sleep_until(next);
        passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    }

    component.on_deactivate({});
    if (component.write({}, {}) != return_type::OK) return fail("write after deactivation");
    if (component.on_error({}) != CallbackReturn::SUCCESS || component.on_configure({}) != CallbackReturn::SUCCESS) return fail("on_error");
    component.on_cleanup({});
    return 0;
}
