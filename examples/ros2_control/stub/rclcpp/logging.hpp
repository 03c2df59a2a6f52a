// Stub, see stub/README.md.
#pragma once
#include <cstdio>
#include <string>
#include <utility>

namespace rclcpp {
class Logger {
public:
    explicit Logger(std::string name) : name_(std::move(name)) {}
    const char *get_name() const { return name_.c_str(); }

private:
    std::string name_;
};
inline Logger get_logger(const std::string &name) { return Logger(name); }
}  // namespace rclcpp

#define RCLCPP_ERROR(logger, ...) (std::fprintf(stderr, "[%s] ", (logger).get_name()), std::fprintf(stderr, __VA_ARGS__), std::fputc('\n', stderr))
