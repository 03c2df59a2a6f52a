// Stub, see stub/README.md.
#pragma once
#include <string>

namespace hardware_interface {

class Handle {
public:
    Handle(const std::string &prefix, const std::string &interface, double *value) : name_(prefix + "/" + interface), value_(value) {}
    const std::string &get_name() const { return name_; }
    double get_value() const { return *value_; }
    void set_value(double value) { *value_ = value; }

private:
    std::string name_;
    double *value_;
};

class StateInterface : public Handle {
public:
    using Handle::Handle;
};

class CommandInterface : public Handle {
public:
    using Handle::Handle;
};

}  // namespace hardware_interface
