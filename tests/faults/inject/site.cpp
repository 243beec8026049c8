#include "site.hpp"

#include <algorithm>
#include <cstdlib>

#include <fcntl.h>

namespace shardweld::faults {

namespace {

std::string variable(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

bool is_at(std::string_view path, const std::string& place) {
    return !place.empty() && path.starts_with(place);
}

std::string_view name_of(std::string_view path) {
    return path.substr(path.find_last_of('/') + 1);
}

Phase phase_of(Phase now, Call call, Side side, std::string_view path, int flags) {
    const std::string_view name = name_of(path);
    if (side == Side::report) {
        // Its place is looked at before anything is done.
        return call == Call::open && (flags & O_CREAT) != 0 ? Phase::report : now;
    }
    if (side == Side::input) {
        const bool is_config = call == Call::open && name == "config.json";
        return now >= Phase::create && call == Call::open ? Phase::execute
               : is_config                                ? Phase::bind
                                                          : Phase::survey;
    }
    if (path.find(".shardweld-partial/journal") != std::string_view::npos) {
        return now;  // made, written and renamed in all of them
    }
    if (call == Call::rename) {
        return name.starts_with('.') ? now : Phase::publish;
    }
    if (call != Call::open) {
        return Phase::survey;
    }
    const bool is_made = (flags & O_CREAT) != 0;
    const bool is_tensors = name.ends_with(".safetensors") || name.ends_with(".h5");
    // The lock, the nonce and the journal are hidden files.
    if (is_tensors && !is_made && (flags & O_ACCMODE) != O_RDONLY) {
        return Phase::execute;
    }
    if (is_made && !is_tensors && !name.starts_with('.')) {
        return Phase::publish;
    }
    // What an earlier run may have left is looked at long before; directories only.
    const bool is_own = path.find(".shardweld-") != std::string_view::npos;
    return is_own && (flags & O_DIRECTORY) == 0 ? Phase::create : Phase::survey;
}

}  // namespace

Places::Places()
    : input_(variable("SHARDWELD_FAULT_INPUT")),
      output_(variable("SHARDWELD_FAULT_OUTPUT")),
      report_(variable("SHARDWELD_FAULT_REPORT")) {}

Side Places::side_of(std::string_view path) const {
    return is_at(path, report_)   ? Side::report
           : is_at(path, input_)  ? Side::input
           : is_at(path, output_) ? Side::output
                                  : Side::none;
}

Phase phase_after(Phase now, Call call, Side side, std::string_view path, int flags) {
    return side == Side::none ? now : std::max(now, phase_of(now, call, side, path, flags));
}

}  // namespace shardweld::faults
